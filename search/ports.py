"""What search needs of others."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["CostModel"]


class CostModel(Protocol):
    """Ranks candidates. Called from one thread; deterministic for the same observations; must not raise."""

    def predict(self, sketch: int, population: NDArray[np.int64]) -> NDArray[np.float64]:
        """Estimated seconds of candidates (rows of knob indices) of the sketch with this index."""
        ...

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        """Learn from (sketch, row, seconds), None for candidates that failed."""
        ...
