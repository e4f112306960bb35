"""The time of one stage, term by term."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["StageTime", "Term"]


@dataclass(frozen=True, slots=True)
class Term:
    """Seconds: by itself, what it adds to the larger ones, and what would be saved without it."""

    alone_s: float
    adds_s: float
    saves_s: float


@dataclass(frozen=True, slots=True)
class StageTime:
    """What ``terms`` add is ``time_s``; ``share`` is that of the prior's whole. ``margin``: how many times as
    long the ``binding`` term takes as the ``runner_up``; None where there is no other.

    The figures are those of ``costmodel.anatomy``; ``parallel``: how many times faster all threads are.
    """

    name: str
    formula: str
    is_copy: bool
    reduces: bool
    reuses: bool
    time_s: float
    share: float
    binding: str
    runner_up: str | None
    margin: float | None
    terms: Mapping[str, Term]
    loads_per_fma: float
    accumulators: float
    unrolled: float
    passes: float
    parallel: float
    lanes_used: float
    wasted: float
