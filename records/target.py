"""The machine a kernel is tuned for."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tunesmith.ir.dtypes import DType
from tunesmith.records.members import members

__all__ = ["Peaks", "Target"]


@dataclass(frozen=True, slots=True)
class Peaks:
    """Measured limits of one core: FMA rates in GFLOP/s by type, read bandwidths in GB/s by level."""

    f32_gflops: float
    f64_gflops: float
    l1_gbs: float
    l2_gbs: float
    l3_gbs: float
    dram_gbs: float

    def gflops(self, dtype: DType) -> float:
        return self.f32_gflops if dtype is DType.F32 else self.f64_gflops


@dataclass(frozen=True, slots=True)
class Target:
    """CPU, caches (bytes, as one core sees them; 0 if absent), vector unit, thread count and measured peaks.

    ``cpu`` and ``features`` are LLVM's names. ``threads`` is the number of threads a kernel may use.
    """

    triple: str
    cpu: str
    features: str
    model: str
    cores: int
    threads: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    line_bytes: int
    vector_bytes: int
    vector_registers: int
    peaks: Peaks

    @property
    def arch(self) -> str:
        return self.triple.split("-", 1)[0]

    @property
    def fingerprint(self) -> str:
        """Stable identity: everything but the measured peaks."""
        return _fingerprint(self)

    def lanes(self, dtype: DType) -> int:
        """Elements in one native vector."""
        return self.vector_bytes * 8 // dtype.bits

    def with_threads(self, threads: int) -> "Target":
        return replace(self, threads=threads)

    def to_json(self) -> dict[str, Any]:
        return {**members(self), "peaks": members(self.peaks)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Target":
        return Target(**{**data, "peaks": Peaks(**data["peaks"])})


@lru_cache(maxsize=256)
def _fingerprint(target: Target) -> str:
    """Asked for with every record that is added; a process meets few targets."""
    stable = {k: v for k, v in members(target).items() if k != "peaks"}
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:16]
