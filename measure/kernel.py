"""A binary loaded into this process, ready to call."""

import ctypes
from collections.abc import Sequence

from tunesmith.codegen.binary import PREPARE, REPEAT, RUN, Binary
from tunesmith.codegen.llvm import load_object, load_openmp
from tunesmith.measure.arena import pointer_array

__all__ = ["BoundKernel", "Kernel"]

_ONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_MANY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Kernel:
    """Raises BuildError when the object code cannot be loaded or lacks an entry."""

    def __init__(self, binary: Binary) -> None:
        if binary.needs_openmp:
            load_openmp()
        self._code = load_object(binary.object_code)
        self._run = _ONE(self._code.address(RUN))
        self._repeat = _MANY(self._code.address(REPEAT))
        self._prepare = _ONE(self._code.address(PREPARE)) if binary.has_prepare else None

    def bind(self, addresses: Sequence[int]) -> "BoundKernel":
        """On the buffers at these addresses, in the binary's order."""
        return BoundKernel(self, pointer_array(addresses))


class BoundKernel:
    """A kernel with its buffers, which the caller keeps alive."""

    def __init__(self, kernel: Kernel, pointers: "ctypes.Array[ctypes.c_void_p]") -> None:
        self._kernel = kernel
        self._pointers = pointers
        self._address = ctypes.addressof(pointers)

    def prepare(self) -> None:
        if self._kernel._prepare is not None:
            self._kernel._prepare(self._address)

    def run(self) -> None:
        self._kernel._run(self._address)

    def repeat(self, n: int) -> None:
        self._kernel._repeat(self._address, n)
