"""The learned part: gradient-boosted trees on what the analytic prior gets wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.features import NAMES, features_of
from tunesmith.costmodel.model import Model, contributions
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
    "colsample_bytree": 0.8,
    "nthread": 1,
    "verbosity": 0,
}
_ROUNDS = 50
_MEMBERS = 3  # of the ensemble: their mean predicts, their disagreement is what is not known
_DOUBT = 0.2  # standard deviation of the log of a prediction that nothing was learnt for
_STEEP = 0.5  # how much more a candidate near the best counts, per factor of e in time


class Ranker:
    """Predicts seconds: the analytic prior times exp(residual). The residual is what a pretrained model says,
    if there is one, and what is learnt from measurements on top of it: by an ensemble of trees, each member
    from a resample of them (L. Breiman, Machine Learning 24, 1996).

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
        self._seconds: list[float] = []
        self._outcomes = np.zeros((len(self.sketches), 2))  # failed, succeeded
        self._structures: dict[int, State] = {}
        self._members: list[Any] = []
        self._offset = 0.0

    def features(self, sketch: int, population: NDArray[np.int64]) -> NDArray[np.float32]:
        """The features of candidates, and in the last column the log of their seconds before anything of
        this task is known."""
        if not len(population):
            return np.zeros((0, len(NAMES) + 1), dtype=np.float32)
        if sketch not in self._structures:
            self._structures[sketch] = structure(self.program, self.sketches[sketch])
        f = features_of(self._structures[sketch], self.sketches[sketch], population, self.target)
        log_s = np.log(f.prior_s)
        if self.pretrained is not None:
            log_s = log_s + self.pretrained.residual(f.matrix)
        return np.column_stack([f.matrix, log_s.astype(np.float32)])

    def predict(self, sketches: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.float64]:
        learnt = np.zeros(len(features))
        for member in self._members:
            learnt += member.inplace_predict(features[:, :-1]) / len(self._members)
        return self._seconds_of(sketches, features, learnt)

    @property
    def trained(self) -> int:
        """Trials that the trees are trained on; 0 as long as there are no trees."""
        return min(len(self._seconds), _MOST) if self._members else 0

    def contributions(self, matrix: NDArray[np.float32]) -> NDArray[np.float64]:
        """What is learnt of each row split by features; the last column is what all rows share. Once there
        are trees."""
        members = [contributions(m, matrix) for m in self._members]
        parts: NDArray[np.float64] = np.mean(members, axis=0)
        parts[:, -1] += self._offset
        return parts

    def imagine(
        self, sketches: NDArray[np.int64], features: NDArray[np.float32], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """What one member of the ensemble says (Thompson sampling); as long as there is none, a random
        linear function of the features on top of the prior."""
        if self._members:
            member = self._members[int(rng.integers(len(self._members)))]
            return self._seconds_of(sketches, features, member.inplace_predict(features[:, :-1]))
        x = features[:, :-1]
        spread = x.std(axis=0)
        varied = spread > 1e-6
        weights = rng.standard_normal(int(varied.sum())) / np.sqrt(max(int(varied.sum()), 1))
        return self._seconds_of(
            sketches, features, _DOUBT * ((x - x.mean(axis=0))[:, varied] / spread[varied]) @ weights
        )

    def _seconds_of(
        self, sketches: NDArray[np.int64], features: NDArray[np.float32], learnt: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        failed, succeeded = self._outcomes[sketches].T
        trust = (succeeded + 2.0) / (failed + succeeded + 2.0)
        seconds: NDArray[np.float64] = np.exp(features[:, -1] + self._offset + learnt) / trust
        return seconds

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        for sketch in sorted({sketch for sketch, _, _ in outcomes}):
            mine = [(row, seconds) for i, row, seconds in outcomes if i == sketch]
            self._outcomes[sketch] += (sum(t is None for _, t in mine), sum(t is not None for _, t in mine))
            timed = [(row, seconds) for row, seconds in mine if seconds is not None]
            if timed:
                self._rows += list(self.features(sketch, np.array([row for row, _ in timed], dtype=np.int64)))
                self._seconds += [seconds for _, seconds in timed]
        if len(self._seconds) >= _LEAST:
            self._train()

    def _train(self) -> None:
        import xgboost  # here, since it takes longer to import than a first batch takes to measure

        rows, log_s = np.stack(self._rows[-_MOST:]), np.log(self._seconds[-_MOST:])
        x, residual = rows[:, :-1], log_s - rows[:, -1]
        self._offset = float(np.median(residual))
        weight = np.exp(-_STEEP * (log_s - log_s.min()))
        self._members = []
        for n in range(_MEMBERS):
            seed = self.seed * _MEMBERS + n
            drawn = np.random.default_rng(seed).poisson(1.0, len(x)) if n else np.ones(len(x))
            data = xgboost.DMatrix(x, label=residual - self._offset, weight=weight * drawn)
            params = {**_PARAMS, "seed": seed % (1 << 31), "base_score": 0.0}
            self._members.append(xgboost.train(params, data, num_boost_round=_ROUNDS))
