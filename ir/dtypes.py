"""Element types. Storage, compute and accumulation types are separate choices of a stage or tensor."""

from enum import StrEnum

import numpy as np

__all__ = ["DType"]


class DType(StrEnum):
    """An element type; its value is the name used in the expression language."""

    F32 = "f32"
    F64 = "f64"

    @property
    def bits(self) -> int:
        return _BITS[self]

    @property
    def size_bytes(self) -> int:
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[np.floating]:
        return np.dtype(_NUMPY[self])

    @property
    def eps(self) -> float:
        """Distance from 1 to the next representable number."""
        return float(np.finfo(self.numpy).eps)


_BITS = {DType.F32: 32, DType.F64: 64}
_NUMPY: dict[DType, type[np.floating]] = {DType.F32: np.float32, DType.F64: np.float64}
