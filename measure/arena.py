"""Memory for kernels that may be wrong, and memory to time them in.

A ``GuardedBuffer`` ends at a page that may not be touched, so that an access past the end is a fault.
Timing needs other addresses: buffers that all end at page ends share the low bits of their addresses, and
loads then wait for unrelated stores (4 KiB aliasing). A ``TimingArena`` lays the buffers out on huge pages
at staggered cache lines.
"""

import contextlib
import ctypes
import mmap
import os
from collections.abc import Sequence

import numpy as np

from tunesmith.codegen.binary import BufferSpec
from tunesmith.ir.loopnest import Role

__all__ = [
    "GuardedArena",
    "GuardedBuffer",
    "TimingArena",
    "advise_huge",
    "pointer_array",
]

PAGE = mmap.PAGESIZE
LINE = 64
HUGE = 2 << 20
_CANARY = 0xA5
_POISON = 0xFF  # all ones is a NaN in every float type
_KEEP_BYTES = 1 << 30
_PROT_NONE, _PROT_READ, _PROT_READ_WRITE = 0, 1, 3

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _round_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def advise_huge(memory: mmap.mmap) -> None:
    """Ask for huge pages where the system has them."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)


def _protect(address: int, size: int, how: int) -> None:
    if _libc.mprotect(address, size, how) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mprotect: {os.strerror(code)}")


def pointer_array(addresses: Sequence[int]) -> "ctypes.Array[ctypes.c_void_p]":
    """The argument of a kernel."""
    return (ctypes.c_void_p * len(addresses))(*addresses)


class GuardedBuffer:
    """``size_bytes`` bytes between two forbidden pages, ending at the second one.

    The start is aligned to ``align``; what that leaves free after the end, and on the page before the
    start, holds a pattern that ``intact`` checks.
    """

    def __init__(self, size_bytes: int, align: int) -> None:
        room = _round_up(size_bytes, align)
        span = _round_up(room, PAGE)
        self.size_bytes = size_bytes
        self.align = align
        self._span = span
        self._memory = mmap.mmap(-1, span + 2 * PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._offset = PAGE + span - room
        _protect(self._base, PAGE, _PROT_NONE)
        _protect(self._base + PAGE + span, PAGE, _PROT_NONE)
        self._before = self._bytes(PAGE, self._offset - PAGE)
        self._after = self._bytes(self._offset + size_bytes, room - size_bytes)
        self._data = self._bytes(self._offset, size_bytes)
        self._before[:] = _CANARY
        self._after[:] = _CANARY

    def _bytes(self, offset: int, size: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        return np.frombuffer(self._memory, np.uint8, size, offset)

    @property
    def address(self) -> int:
        return self._base + self._offset

    def view(self, spec: BufferSpec) -> np.ndarray:
        return self._data.view(spec.dtype.numpy).reshape(spec.shape)

    def poison(self) -> None:
        self._data[:] = _POISON

    def freeze(self) -> None:
        """Make it read-only: a kernel that writes its input faults."""
        _protect(self._base + PAGE, self._span, _PROT_READ)

    def thaw(self) -> None:
        _protect(self._base + PAGE, self._span, _PROT_READ_WRITE)

    def intact(self) -> bool:
        return bool((self._before == _CANARY).all() and (self._after == _CANARY).all())


def _align_of(spec: BufferSpec) -> int:
    return LINE if spec.role in (Role.PACKED, Role.TEMP) else spec.dtype.size_bytes


class GuardedArena:
    """Guarded buffers for one kernel after another; those that fit are used again."""

    def __init__(self) -> None:
        self._free: list[GuardedBuffer] = []
        self._held: list[GuardedBuffer] = []

    def take(self, spec: BufferSpec) -> GuardedBuffer:
        """A poisoned buffer of the spec's size and alignment."""
        align = _align_of(spec)
        fits = (b for b in self._free if b.size_bytes == spec.size_bytes and b.align == align)
        buffer = next(fits, None)
        if buffer is None:
            buffer = GuardedBuffer(spec.size_bytes, align)
        else:
            self._free.remove(buffer)
        buffer.poison()
        self._held.append(buffer)
        return buffer

    def release(self) -> None:
        """Give back all that was taken; only what the last kernel used is kept."""
        kept = sum(b.size_bytes for b in self._held)
        self._free = self._held if kept <= _KEEP_BYTES else []
        self._held = []


class TimingArena:
    """One stretch of memory on huge pages, handed out front to back.

    ``first`` numbers the first buffer: large buffers start at different cache lines of a page, decided by
    their number, so that equal tiles of them do not compete for the same sets.
    """

    def __init__(self, specs: Sequence[BufferSpec], first: int = 0) -> None:
        slots = [_slot(first + i, spec.size_bytes) for i, spec in enumerate(specs)]
        offsets: list[int] = []
        end = 0
        for spec, slot in zip(specs, slots, strict=True):
            start = _round_up(end, PAGE) + slot * LINE if slot else _round_up(end, LINE)
            offsets.append(start)
            end = start + spec.size_bytes
        self._memory = mmap.mmap(-1, _round_up(max(end, 1), HUGE) + HUGE)
        advise_huge(self._memory)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        shift = -base % HUGE
        self.addresses = [base + shift + offset for offset in offsets]
        self.views = [
            np.frombuffer(self._memory, spec.dtype.numpy, spec.size_bytes // spec.dtype.size_bytes, shift + o)
            .reshape(spec.shape)
            for spec, o in zip(specs, offsets, strict=True)
        ]  # fmt: skip


def _slot(number: int, size_bytes: int) -> int:
    """Cache line of a page that buffer ``number`` starts at; 0: wherever the one before it ended."""
    return (13 * number + 1) % (PAGE // LINE) if size_bytes >= PAGE else 0
