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
from tunesmith.search.ports import seconds_of

__all__ = ["sample_schedules"]

_BEST, _MUTANTS, _FAIR = 0.25, 0.25, 0.25  # of the candidates; the rest is random
_TOURNAMENT = 8  # random candidates of a sketch of which the best predicted is a fair one
_HOPELESS = 40.0  # predicted times the best: takes long to measure, and no search would try it
_PASSES = 6  # draws of what is missing, before the space is taken to have no more


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
        if best:
            self.limit_s = _HOPELESS * min(self._seconds(c) for c in best)
            self._fill(round((_BEST + _MUTANTS) * count), lambda n: self._mutants(best, n))
        self._fill(round((_BEST + _MUTANTS + _FAIR) * count), lambda n: self._random(n, _TOURNAMENT))
        self._fill(count, lambda n: self._random(n, 1))
        return tuple(self.chosen.values())

    def _fill(self, until: int, draw: Callable[[int], list[Candidate]]) -> None:
        for _ in range(_PASSES):
            for candidate in draw(until - len(self.chosen)):
                self._add(candidate)
            if len(self.chosen) >= until:
                return

    def _add(self, candidate: Candidate) -> None:
        schedule = self.space.decode(candidate)
        self.chosen.setdefault(schedule.hash, schedule)

    def _seconds(self, candidate: Candidate) -> float:
        row = np.array([candidate.row], dtype=np.int64)
        return float(seconds_of(self.model, candidate.sketch, row)[0])

    def _mutants(self, parents: Sequence[Candidate], count: int) -> list[Candidate]:
        """Of parents drawn evenly, sketch by sketch: predictions are dear for few rows at a time."""
        drawn = [parents[i] for i in self.rng.integers(len(parents), size=count)]
        out: list[Candidate] = []
        for sketch in sorted({p.sketch for p in drawn}):
            rows = np.array([p.row for p in drawn if p.sketch == sketch], dtype=np.int64)
            out += self._best_of(sketch, mutate(self.space.sketches[sketch], rows, self.rng), 1)
        return out

    def _random(self, count: int, of: int) -> list[Candidate]:
        """The best predicted of ``of`` random candidates of a random sketch, ``count`` times."""
        drawn = np.bincount(self.rng.integers(len(self.space.sketches), size=count))
        out: list[Candidate] = []
        for sketch in map(int, np.flatnonzero(drawn)):
            rows = sample(self.space.sketches[sketch], of * int(drawn[sketch]), self.rng)
            out += self._best_of(sketch, rows, of)
        return out

    def _best_of(self, sketch: int, rows: NDArray[np.int64], of: int) -> list[Candidate]:
        """The best predicted of every ``of`` rows, unless it is hopeless."""
        if not len(rows):
            return []
        seconds = seconds_of(self.model, sketch, rows)
        starts = range(0, len(rows), of)
        firsts = [start + int(np.argmin(seconds[start : start + of])) for start in starts]
        return [Candidate(sketch, tuple(map(int, rows[i]))) for i in firsts if seconds[i] <= self.limit_s]
