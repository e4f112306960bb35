"""What no schedule of a program is faster than: the roofline (S. Williams et al., CACM 52(4), 2009)."""

from collections.abc import Mapping
from dataclasses import dataclass

from tunesmith.ir import dominant_dtype, min_bytes, needed_flops
from tunesmith.ir.program import Program
from tunesmith.records import Target

__all__ = ["Bound", "bound", "held"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds at the roofline: the largest of ``times_s``, which is that of ``by``.

    ``arithmetic``: the needed ``flops`` at the FMA peak; ``l1``, ``l2``, ``l3``, ``memory``: the ``bytes`` of
    inputs and outputs at a level's rate, without those that stay in the cache before it.
    """

    time_s: float
    by: str
    times_s: Mapping[str, float]
    flops: int
    bytes: int


def bound(program: Program, target: Target, *, warm: bool = True) -> Bound:
    """``warm``: what fits a cache is there before the call. Rates and caches are those of all threads."""
    peaks, n = target.peaks, target.threads
    flops, size = needed_flops(program), min_bytes(program)
    levels = (
        ("l1", 0, peaks.l1_gbs),
        ("l2", target.l1d_bytes, peaks.l2_gbs),
        ("l3", target.l2_bytes, peaks.l3_gbs),
        ("memory", target.l3_bytes or target.l2_bytes, peaks.dram_gbs),
    )
    times = {"arithmetic": flops / (peaks.gflops(dominant_dtype(program)) * 1e9 * n)}
    for name, held, rate in levels:
        moved = max(0, size - n * held) if warm else size
        times[name] = moved / (rate * 1e9 * n)
    by = max(times, key=lambda t: times[t])
    return Bound(times[by], by, times, flops, size)


def held(program: Program, target: Target, *, warm: bool = True) -> tuple[str, ...]:
    """Caches (``l1 l2 l3``) that all tensors of a program fit in, and so are in before a warm call."""
    size = sum(t.size_bytes for t in program.tensors.values())
    caches = {"l1": target.l1d_bytes, "l2": target.l2_bytes, "l3": target.l3_bytes or target.l2_bytes}
    return tuple(name for name, room in caches.items() if warm and size <= target.threads * room)
