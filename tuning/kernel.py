"""Kernels as Python callables: NumPy arrays in, NumPy arrays out, nothing copied."""

import ctypes
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.codegen.binary import PREPARE, RUN, Binary, BufferSpec
from tunesmith.codegen.llvm import load_object, load_openmp
from tunesmith.ir import Program, Tensor
from tunesmith.ir.loopnest import Role
from tunesmith.records import Record
from tunesmith.schedule import Schedule

__all__ = ["Kernel", "aligned_empty"]

_ALIGN = 64
_Pointer = ctypes.c_void_p


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """An uninitialised array that starts at a cache line, which streamed stores need."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + _ALIGN, dtype=np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class _Code:
    """Machine code in this process; ``loaded`` keeps it alive."""

    loaded: Any
    run: Any
    prepare: Any

    @staticmethod
    def of(binary: Binary) -> "_Code":
        if binary.needs_openmp:
            load_openmp()
        loaded = load_object(binary.object_code)
        kind = ctypes.CFUNCTYPE(None, _Pointer)
        prepare = kind(loaded.address(PREPARE)) if binary.has_prepare else None
        return _Code(loaded, kind(loaded.address(RUN)), prepare)


class _Space(threading.local):
    """What each thread has of its own: temporaries, and the arrays of its last call with ``out``."""

    temps: list[np.ndarray] | None = None
    arguments: "tuple[weakref.ref[np.ndarray], ...]" = ()
    out: np.ndarray | tuple[np.ndarray, ...] | None = None
    packed: list[np.ndarray] | None = None
    pointers: Any = None
    address: int = 0


class Kernel:
    """A compiled program. Call it with the program's arguments in order.

    Arrays must be C-contiguous, of the declared shape and type, and must not overlap the result; otherwise
    a ValueError names the argument. ``out=`` takes the result's array (a tuple for several results).

    Constant operands are packed at the first call and whenever another array object is passed; changing such
    an array in place may go unnoticed. ``bind`` makes a kernel that keeps them, under the same rule. Calls
    from several threads are safe.

    After a call with several threads, a child made by ``os.fork`` must not call kernels: OpenMP's threads do
    not exist there.

    ``record`` says which record the schedule came from; None for a guess of the cost model.
    """

    def __init__(
        self, program: Program, schedule: Schedule, binary: Binary, record: Record | None = None,
        bound: Mapping[str, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        self.program = program
        self.schedule = schedule
        self.record = record
        self.binary = binary
        self._code = _Code.of(binary)
        self._bound = dict(bound or {})
        self._free = [t for t in program.inputs if t.name not in self._bound]
        self._results = [program.tensors[name] for name in program.outputs]
        self._temps = [b for b in binary.buffers if b.role is Role.TEMP]
        self._packed = [
            aligned_empty(b.shape, b.dtype.numpy) for b in binary.buffers if b.role is Role.PACKED
        ]
        self._packed_from: tuple[np.ndarray, ...] | None = None
        self._constants = [i for i, t in enumerate(program.inputs) if t.const]
        self._packing = threading.Lock()
        self._space = _Space()

    @property
    def name(self) -> str:
        return self.program.name

    def bind(self, **constants: np.ndarray) -> "Kernel":
        """A kernel with these constant operands fixed; it takes the others only."""
        for name, array in constants.items():
            tensor = next((t for t in self.program.inputs if t.name == name), None)
            if tensor is None or not tensor.const:
                known = ", ".join(t.name for t in self.program.inputs if t.const) or "none"
                raise ValueError(f"{self.name} has no constant operand {name!r}; it has {known}")
            _check(f"constant {name!r} of {self.name}", array, tensor)
        bound = {**self._bound, **constants}
        return Kernel(self.program, self.schedule, self.binary, self.record, bound)

    def __call__(self, *arguments: np.ndarray, out: Any = None) -> Any:
        mine = self._space
        if mine.out is out and out is not None and _writeable(out) and _same(mine.arguments, arguments):
            self._code.run(mine.address)  # the very arrays of the last call: checked then
            return out
        inputs = self._inputs(arguments)
        outputs = self._outputs(out, inputs)
        packed = self._pack(inputs) if self._code.prepare is not None else self._packed
        pointers = self._pointers(inputs, packed, outputs)
        self._code.run(pointers)
        if isinstance(out, np.ndarray) or (isinstance(out, tuple) and len(out) > 1):
            mine.arguments = tuple(weakref.ref(a) for a in arguments)  # which keep arrays from being resized
            mine.out, mine.pointers, mine.packed = out, pointers, packed
            mine.address = ctypes.addressof(pointers)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _inputs(self, arguments: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        if len(arguments) != len(self._free):
            names = ", ".join(t.name for t in self._free)
            raise ValueError(f"{self.name} takes {len(self._free)} arrays ({names}), got {len(arguments)}")
        for position, (array, tensor) in enumerate(zip(arguments, self._free, strict=True)):
            _check(f"argument {position} ({tensor.name}) of {self.name}", array, tensor)
        given = iter(arguments)
        return [self._bound[t.name] if t.name in self._bound else next(given) for t in self.program.inputs]

    def _outputs(self, out: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        if out is None:
            return [aligned_empty(t.shape, t.dtype.numpy) for t in self._results]
        arrays = list(out) if isinstance(out, tuple | list) else [out]
        if len(arrays) != len(self._results):
            raise ValueError(f"out of {self.name} takes {len(self._results)} arrays, got {len(arrays)}")
        for i, (array, tensor) in enumerate(zip(arrays, self._results, strict=True)):
            label = f"out of {self.name}" if len(arrays) == 1 else f"out[{i}] of {self.name}"
            _check(label, array, tensor)
            if not array.flags.writeable:
                raise ValueError(f"{label} is read-only")
            others = [*zip((t.name for t in self.program.inputs), inputs, strict=True)]
            others += [(f"out[{j}]", b) for j, b in enumerate(arrays) if j != i]
            for name, other in others:
                if np.may_share_memory(array, other):
                    raise ValueError(f"{label} overlaps {name}; pass an array of its own")
        return arrays

    def _pack(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        constants = tuple(inputs[i] for i in self._constants)
        with self._packing:
            same = self._packed_from is not None and all(
                a is b for a, b in zip(self._packed_from, constants, strict=True)
            )
            if not same:
                fresh = [aligned_empty(p.shape, p.dtype) for p in self._packed]  # others may be reading
                results = [np.empty(0, dtype=t.dtype.numpy) for t in self._results]
                self._code.prepare(self._pointers(inputs, fresh, results))
                self._packed, self._packed_from = fresh, constants
            return self._packed

    def _pointers(self, inputs: list[np.ndarray], packed: list[np.ndarray], outputs: list[np.ndarray]) -> Any:
        mine = self._space
        if mine.temps is None:
            mine.temps = [aligned_empty(b.shape, b.dtype.numpy) for b in self._temps]
        temps = mine.temps
        arrays = [*inputs, *packed, *outputs, *temps]
        return (_Pointer * len(arrays))(*[a.__array_interface__["data"][0] for a in arrays])

    def __repr__(self) -> str:
        origin = f"record {self.record.id}" if self.record else "untuned: the cost model's guess"
        return f"<Kernel {self.name}({', '.join(t.name for t in self._free)}) from {origin}>"


def _same(known: "tuple[weakref.ref[np.ndarray], ...]", arguments: tuple[np.ndarray, ...]) -> bool:
    if len(known) != len(arguments):
        return False
    for reference, array in zip(known, arguments, strict=True):  # noqa: SIM110 on the path of every call
        if reference() is not array:
            return False
    return True


def _writeable(out: np.ndarray | tuple[np.ndarray, ...]) -> bool:
    if isinstance(out, tuple):
        return all(a.flags.writeable for a in out)
    return out.flags.writeable


def _check(label: str, array: Any, tensor: Tensor | BufferSpec) -> None:
    """Raises ValueError saying what was expected."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{label} must be a NumPy array, got {type(array).__name__}")
    if array.dtype != tensor.dtype.numpy:
        raise ValueError(f"{label} must have dtype {tensor.dtype.numpy}, got {array.dtype}")
    if array.shape != tensor.shape:
        raise ValueError(f"{label} must have shape {tensor.shape}, got {array.shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{label} must be C-contiguous: pass numpy.ascontiguousarray(…)")
    if not array.flags.aligned:
        raise ValueError(f"{label} must be aligned to its {tensor.dtype.size_bytes}-byte elements")
