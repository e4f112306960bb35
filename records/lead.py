"""By how much one kernel is faster than another that was timed in turn with it."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Lead", "lead_of"]

_MISSED = 0.05  # how often the true median may lie outside of the interval
_LEAST = 6  # pairs: with fewer, no interval is that sure


@dataclass(frozen=True, slots=True)
class Lead:
    """``ratio``: median of the other's time over the winner's, pair by pair; it lies between ``low`` and
    ``high`` with 95 % confidence."""

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def is_sure(self) -> bool:
        """Whether the winner is faster, as far as one can tell."""
        return self.low > 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def lead_of(winner_s: Sequence[float], other_s: Sequence[float]) -> Lead | None:
    """From samples taken in turn; None with fewer than six pairs, which cannot tell.

    The interval is the distribution-free one between order statistics, their ranks from the binomial
    distribution (W. J. Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2): it assumes
    nothing about how the noise is distributed.
    """
    ratios = sorted(b / a for a, b in zip(winner_s, other_s, strict=True))
    n = len(ratios)
    if n < _LEAST:
        return None
    below, rank, total = 0.0, 0, 2.0**n
    while (below + math.comb(n, rank)) / total <= _MISSED / 2:
        below += math.comb(n, rank)
        rank += 1
    return Lead(statistics.median(ratios), ratios[rank - 1], ratios[n - rank], n)
