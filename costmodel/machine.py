"""A target's rates, as the cost formulas use them."""

from dataclasses import dataclass

from tunesmith.ir.dtypes import DType
from tunesmith.records import Target

__all__ = ["Level", "Machine"]


@dataclass(frozen=True, slots=True)
class Level:
    """A cache: its capacity, and the rate at which data comes from beyond it."""

    name: str
    size_bytes: int
    beyond_gbs: float

    @property
    def way_bytes(self) -> int:
        """Bytes after which addresses map to the same set, with the usual eight or sixteen ways."""
        ways = 8 if self.size_bytes < 1 << 22 else 16
        return 1 << max(12, (self.size_bytes // ways).bit_length() - 1)


@dataclass(frozen=True, slots=True)
class Machine:
    """Per core and second, for one element type: vector FMAs, vector loads, clock cycles; the caches."""

    lanes: int
    registers: int
    fma_rate: float
    load_rate: float
    clock: float
    levels: tuple[Level, ...]
    threads: int

    @staticmethod
    def of(target: Target, dtype: DType) -> "Machine":
        lanes = target.lanes(dtype)
        peaks = target.peaks
        fma_rate = peaks.gflops(dtype) * 1e9 / (2 * lanes)
        l3 = target.l3_bytes or target.l2_bytes
        levels = (
            Level("l1", target.l1d_bytes, peaks.l2_gbs),
            Level("l2", target.l2_bytes, peaks.l3_gbs),
            Level("l3", l3, peaks.dram_gbs),
        )
        load_rate = max(peaks.l1_gbs * 1e9 / target.vector_bytes, fma_rate)
        return Machine(lanes, target.vector_registers, fma_rate, load_rate, 3.3e9, levels, target.threads)
