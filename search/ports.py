"""What the search needs of others."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["CostModel", "Features", "seconds_of"]

Features: TypeAlias = NDArray[np.float32]
"""One row a candidate; what the columns mean is the model's affair."""


class CostModel(Protocol):
    """Ranks candidates. Called from one thread; deterministic for the same observations; must not raise."""

    def features(self, sketch: int, population: NDArray[np.int64]) -> Features:
        """What predictions are made from, for rows of knob indices of the sketch with this index."""
        ...

    def predict(self, sketches: NDArray[np.int64], features: Features) -> NDArray[np.float64]:
        """Estimated seconds of candidates, given the sketch of each."""
        ...

    def imagine(
        self, sketches: NDArray[np.int64], features: Features, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Seconds as they might be, for all that is known: one draw of what the model is unsure of."""
        ...

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        """Learn from (sketch, row, seconds), None for candidates that failed."""
        ...


def seconds_of(model: CostModel, sketch: int, population: NDArray[np.int64]) -> NDArray[np.float64]:
    """Estimated seconds of candidates of one sketch."""
    return model.predict(np.full(len(population), sketch), model.features(sketch, population))
