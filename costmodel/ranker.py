"""The learned part: gradient-boosted trees on what the analytic prior gets wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.features import Features, features_of
from tunesmith.costmodel.model import Model
from tunesmith.costmodel.structure import structure
from tunesmith.ir.program import Program
from tunesmith.records import Target
from tunesmith.schedule import Sketch, State

__all__ = ["Ranker"]

_LEAST = 12  # measured candidates before the trees have a say
_MOST = 2000  # the most recent are trained on, which bounds the time of a round
_PARAMS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 4,
    "eta": 0.15,
    "min_child_weight": 2,
    "lambda": 2.0,
    "subsample": 0.9,
    "nthread": 1,
    "verbosity": 0,
}
_ROUNDS = 50
_STALE = 0.02  # what a candidate loses for each one measured that has the very same features


class Ranker:
    """Predicts seconds: the analytic prior times exp(residual). The residual is what a pretrained model says,
    if there is one, and what is learnt from measurements on top of it.

    Failed candidates do not enter the regression; sketches in which most candidates fail are predicted to
    be slow. Deterministic for the same observations and seed. Not thread-safe.
    """

    def __init__(
        self, program: Program, sketches: Sequence[Sketch], target: Target, seed: int = 0,
        pretrained: Model | None = None,
    ) -> None:  # fmt: skip
        self.program = program
        self.sketches = tuple(sketches)
        self.target = target
        self.seed = seed
        self.pretrained = pretrained
        self._rows: list[NDArray[np.float32]] = []
        self._residuals: list[float] = []
        self._outcomes = np.zeros((len(self.sketches), 2))  # failed, succeeded
        self._structures: dict[int, State] = {}
        self._seen: dict[bytes, int] = {}
        self._trees: Any = None
        self._offset = 0.0

    def predict(self, sketch: int, population: NDArray[np.int64]) -> NDArray[np.float64]:
        f = self._features(sketch, population)
        failed, succeeded = self._outcomes[sketch]
        trust = (succeeded + 2.0) / (failed + succeeded + 2.0)
        residual: Any = self._offset + self._base(f.matrix)
        if self._trees is not None:
            residual = residual + self._trees.inplace_predict(f.matrix)
        seen = np.array([self._seen.get(row.tobytes(), 0) for row in f.matrix])
        seconds: NDArray[np.float64] = f.prior_s * np.exp(residual) * (1 + _STALE * seen) / trust
        return seconds

    def _base(self, matrix: NDArray[np.float32]) -> NDArray[np.float64]:
        """The residual before anything of this task is measured."""
        return np.zeros(len(matrix)) if self.pretrained is None else self.pretrained.residual(matrix)

    def _features(self, sketch: int, population: NDArray[np.int64]) -> Features:
        if sketch not in self._structures:
            self._structures[sketch] = structure(self.program, self.sketches[sketch])
        return features_of(self._structures[sketch], self.sketches[sketch], population, self.target)

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        for sketch in sorted({sketch for sketch, _, _ in outcomes}):
            mine = [(row, seconds) for i, row, seconds in outcomes if i == sketch]
            self._outcomes[sketch] += (sum(t is None for _, t in mine), sum(t is not None for _, t in mine))
            timed = [(row, seconds) for row, seconds in mine if seconds is not None]
            if timed:
                self._learn(sketch, timed)
        if len(self._residuals) >= _LEAST:
            self._train()

    def _learn(self, sketch: int, timed: list[tuple[tuple[int, ...], float]]) -> None:
        f = self._features(sketch, np.array([row for row, _ in timed], dtype=np.int64))
        left = np.log([seconds for _, seconds in timed] / f.prior_s) - self._base(f.matrix)
        for features, residual in zip(f.matrix, left, strict=True):
            self._rows.append(features)
            self._residuals.append(float(residual))
            key = features.tobytes()
            self._seen[key] = self._seen.get(key, 0) + 1

    def _train(self) -> None:
        import xgboost  # here, since it takes longer to import than a first batch takes to measure

        x, y = np.stack(self._rows[-_MOST:]), np.asarray(self._residuals[-_MOST:])
        self._offset = float(np.median(y))
        best_s = y - y.min()
        data = xgboost.DMatrix(x, label=y - self._offset, weight=np.exp(-0.5 * best_s))
        params = {**_PARAMS, "seed": self.seed, "base_score": 0.0}
        self._trees = xgboost.train(params, data, num_boost_round=_ROUNDS)
