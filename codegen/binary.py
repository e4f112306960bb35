"""A compiled kernel: object code and the buffers it works on."""

from dataclasses import dataclass

from tunesmith.ir.dtypes import DType
from tunesmith.ir.loopnest import Role

__all__ = ["PREPARE", "REPEAT", "RUN", "Binary", "BufferSpec"]

RUN = "ts_run"
"""``void ts_run(void **buffers)``: one call of the kernel."""
REPEAT = "ts_repeat"
"""``void ts_repeat(void **buffers, int64_t n)``: n calls, for timing."""
PREPARE = "ts_prepare"
"""``void ts_prepare(void **buffers)``: writes the packed buffers from the constant inputs."""


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """One pointer of the kernel's argument array. ``const`` marks inputs known before the run."""

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    const: bool = False

    @property
    def size_bytes(self) -> int:
        size = self.dtype.size_bytes
        for n in self.shape:
            size *= n
        return size


@dataclass(frozen=True, slots=True)
class Binary:
    """``buffers`` in the order of the pointer array: inputs (program order), packed, outputs, temps.

    Every pointer must be aligned to its element; packed and temp buffers to 64 bytes. ``needs_openmp``
    tells that the code calls libgomp.
    """

    object_code: bytes
    buffers: tuple[BufferSpec, ...]
    needs_openmp: bool = False

    @property
    def has_prepare(self) -> bool:
        return any(b.role is Role.PACKED for b in self.buffers)
