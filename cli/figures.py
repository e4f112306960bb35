"""Figures derived from what records hold."""

from tunesmith.ir.dtypes import DType
from tunesmith.records import Target

__all__ = ["peak_fraction", "threads_text"]


def peak_fraction(target: Target, dtype: str, gflops: float) -> float | None:
    """GFLOP/s over the measured FMA peak of the threads used; None where the peak is not known."""
    peak = target.peaks.gflops(DType(dtype)) * target.threads
    return gflops / peak if peak > 0 else None


def threads_text(target: Target) -> str:
    return "1 thread" if target.threads == 1 else f"{target.threads} threads"
