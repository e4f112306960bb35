"""Candidates to learn from: the best and the bad of a space, in a fixed mixture.

A model that has seen only good programs does not know what makes the others bad, and search would run into
its errors; one that has seen only random ones cannot tell the good apart.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tunesmith.schedule import Schedule
from tunesmith.search import Candidate, CostModel, Search, Space
from tunesmith.search.population import mutate, sample

__all__ = ["sample_schedules"]

_BEST, _MUTANTS, _FAIR = 0.25, 0.25, 0.25  # of the candidates; the rest is random
_TOURNAMENT = 8  # random candidates of a sketch of which the best predicted is a fair one
_HOPELESS = 40.0  # predicted times the best: takes long to measure, and no search would try it
_ATTEMPTS = 6  # draws a candidate, before the space is taken to have no more


def sample_schedules(
    space: Space, model: CostModel, count: int, rng: np.random.Generator
) -> tuple[Schedule, ...]:
    """Up to ``count`` different schedules; fewer from small spaces.

    A quarter is what a search would propose first (evolved on predicted time, and drawn by it); a quarter
    are mutants of those; a quarter the best of eight random candidates of a random sketch; the rest are
    random candidates of random sketches. Sketches are drawn evenly, since the large ones would crowd out the
    others.
    """
    return _Mixture(space, model, rng).draw(count)


class _Mixture:
    def __init__(self, space: Space, model: CostModel, rng: np.random.Generator) -> None:
        self.space, self.model, self.rng = space, model, rng
        self.chosen: dict[str, Schedule] = {}
        self.limit_s = float("inf")

    def draw(self, count: int) -> tuple[Schedule, ...]:
        best = Search(self.space, self.model, self.rng).propose(max(1, round(_BEST * count)))
        for candidate in best:
            self._add(candidate)
        self.limit_s = _HOPELESS * min((self._seconds(c) for c in best), default=float("inf"))
        self._fill(round((_BEST + _MUTANTS) * count), lambda: self._mutant(best))
        self._fill(round((_BEST + _MUTANTS + _FAIR) * count), lambda: self._fair(_TOURNAMENT))
        self._fill(count, lambda: self._fair(1))
        return tuple(self.chosen.values())

    def _fill(self, until: int, draw: Callable[[], Candidate | None]) -> None:
        for _ in range(_ATTEMPTS * until):
            if len(self.chosen) >= until:
                return
            candidate = draw()
            if candidate is not None and self._seconds(candidate) <= self.limit_s:
                self._add(candidate)

    def _add(self, candidate: Candidate) -> None:
        schedule = self.space.decode(candidate)
        self.chosen.setdefault(schedule.hash, schedule)

    def _seconds(self, candidate: Candidate) -> float:
        return float(self._predict(candidate.sketch, np.array([candidate.row], dtype=np.int64))[0])

    def _predict(self, sketch: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.model.predict(sketch, rows)

    def _mutant(self, parents: Sequence[Candidate]) -> Candidate | None:
        if not parents:
            return None
        parent = parents[int(self.rng.integers(len(parents)))]
        row = np.array([parent.row], dtype=np.int64)
        return _first(parent.sketch, mutate(self.space.sketches[parent.sketch], row, self.rng))

    def _fair(self, of: int) -> Candidate | None:
        """The best predicted of some random candidates of a random sketch."""
        sketch = int(self.rng.integers(len(self.space.sketches)))
        rows = sample(self.space.sketches[sketch], of, self.rng)
        if len(rows) > 1:
            rows = rows[[int(np.argmin(self._predict(sketch, rows)))]]
        return _first(sketch, rows)


def _first(sketch: int, rows: NDArray[np.int64]) -> Candidate | None:
    return Candidate(sketch, tuple(map(int, rows[0]))) if len(rows) else None
