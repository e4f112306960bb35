"""Pools: the candidates of one sketch that the search has in mind, with what the model predicts from."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tunesmith.search.population import Population
from tunesmith.search.ports import CostModel, Features

__all__ = ["Pool"]


@dataclass
class Pool:
    """``rows`` (n, knobs) and their ``features``, computed once. What was dropped does not come back by
    itself, since a candidate that was poor stays poor; ``known`` holds the rows seen so far as bytes.
    ``predicted`` seconds are those of the first rows, until the model learns."""

    sketch: int
    model: CostModel
    rows: Population
    features: Features
    known: set[bytes]
    predicted: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @staticmethod
    def of(sketch: int, rows: Population, model: CostModel) -> "Pool":
        rows = np.unique(rows, axis=0)
        return Pool(sketch, model, rows, model.features(sketch, rows), {r.tobytes() for r in rows})

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: Population) -> None:
        """Take in the rows that are new."""
        fresh = []
        for i, row in enumerate(rows):
            key = row.tobytes()
            if key not in self.known:
                self.known.add(key)
                fresh.append(i)
        if fresh:
            rows = rows[fresh]
            self.rows = np.concatenate([self.rows, rows])
            self.features = np.concatenate([self.features, self.model.features(self.sketch, rows)])

    def seconds(self) -> NDArray[np.float64]:
        """Predicted, of every row."""
        known = len(self.predicted)
        if known < len(self.rows):
            sketches = np.full(len(self.rows) - known, self.sketch)
            fresh = self.model.predict(sketches, self.features[known:])
            self.predicted = np.concatenate([self.predicted, fresh])
        return self.predicted

    def forget_predictions(self) -> None:
        """The model has learned."""
        self.predicted = np.empty(0)

    def keep(self, best: NDArray[np.int64]) -> None:
        """Drop all rows but these."""
        self.rows, self.features = self.rows[best], self.features[best]
        self.predicted = self.predicted[best] if len(self.predicted) else self.predicted
