"""Search: proposes candidates and is told how they did. It measures, stores and prints nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.schedule import Schedule, Sketch
from tunesmith.search.config import SearchConfig
from tunesmith.search.population import (
    Population,
    crossover,
    mutate,
    neighbours,
    sample,
    satisfies,
    transplant,
)
from tunesmith.search.ports import CostModel
from tunesmith.search.space import Candidate, Space

__all__ = ["Search"]


@dataclass(frozen=True)
class _Scored:
    """Candidates of one sketch with predicted seconds, best first."""

    sketch: int
    rows: Population
    seconds: NDArray[np.float64]


class Search:
    """Evolution on predicted cost, then descent on measured times.

    Deterministic: the same space, model, seed and sequence of calls give the same candidates. Nothing is
    proposed twice. Not thread-safe.
    """

    def __init__(
        self, space: Space, model: CostModel, rng: np.random.Generator, config: SearchConfig | None = None
    ) -> None:
        self.space = space
        self.model = model
        self.rng = rng
        self.config = config or SearchConfig()
        self.proposed: set[Candidate] = set()
        self.codes: set[str] = set()
        self.measured: list[tuple[float, Candidate]] = []
        self.elite: dict[int, Population] = {}
        self.promise: dict[int, float] = {}

    def schedule(self, candidate: Candidate) -> Schedule:
        return self.space.decode(candidate)

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to propose, for spaces small enough to be walked through."""
        return len(self.proposed) >= self.space.size

    def tell(self, outcomes: Sequence[tuple[Candidate, float | None]]) -> None:
        """Seconds of proposed candidates; None for those that failed."""
        self.measured += [(t, c) for c, t in outcomes if t is not None]
        self.measured.sort(key=lambda m: m[0])
        self.model.observe([(c.sketch, c.row, t) for c, t in outcomes])

    def forget(self, schedules: Sequence[Schedule]) -> None:
        """Schedules that are known already and must not be proposed."""
        self.codes.update(s.hash for s in schedules)

    def propose(self, count: int) -> list[Candidate]:
        """Up to ``count`` new candidates, the most promising first; fewer when the space runs out."""
        chosen: list[Candidate] = []
        early = len(self.measured) < self.config.descend_after
        if not early:
            self._take(chosen, self._descend(), round(count * self.config.descend_share))
        scored = self._evolve()
        explore = round(count * (self.config.explore_early if early else self.config.explore))
        self._take(chosen, _merge(scored), count - explore)
        self._take(chosen, self._varied(scored, 8 * count), count)
        if len(chosen) < count:
            self._take(chosen, self._random(), count)
        return chosen

    def _take(self, chosen: list[Candidate], candidates: Sequence[Candidate], until: int) -> None:
        """Add candidates whose schedule is new, up to a number."""
        for c in candidates:
            if len(chosen) >= until:
                return
            if c in self.proposed:
                continue
            self.proposed.add(c)
            code = self.schedule(c).hash
            if code not in self.codes:
                self.codes.add(code)
                chosen.append(c)

    # -- where candidates come from -----------------------------------------------------------------------

    def _evolve(self) -> list[_Scored]:
        """A population of every sketch, bettered over some generations; the best live on in the next call."""
        chosen = self._chosen()
        share = max(16, self.config.population // len(chosen))
        scored = [self._score(i, self._initial(i, share)) for i in chosen]
        self.promise.update((s.sketch, float(s.seconds[0])) for s in scored if len(s.rows))
        leaders = {s.sketch for s in sorted(scored, key=self._best_of)[: self.config.bred]}
        share = max(share // 2, 64)
        for _ in range(self.config.generations):
            scored = [self._next_generation(s, share) if s.sketch in leaders else s for s in scored]
        self.elite.update((s.sketch, s.rows[: self.config.parents]) for s in scored)
        return scored

    def _best_of(self, scored: _Scored) -> float:
        return float(scored.seconds[0]) if len(scored.rows) else float("inf")

    def _chosen(self) -> list[int]:
        """Sketches to look at now: all at first and where there are few, then the most promising and some
        others in turn."""
        count, most = len(self.space.sketches), self.config.watched
        if count <= most or not self.promise:
            return list(range(count))
        ranked = sorted(range(count), key=lambda i: self.promise.get(i, float("inf")))
        others = self.rng.permutation(ranked[most:])[: most // 4]
        return sorted({*ranked[:most], *(c.sketch for _, c in self.measured[:3]), *map(int, others)})

    def _initial(self, sketch: int, count: int) -> Population:
        shape = self.space.sketches[sketch]
        elite = self.elite.get(sketch)
        rows = [sample(shape, count if elite is None else count // 2, self.rng)]
        rows += [] if elite is None else [elite]
        for _, best in self.measured[: self.config.descend_from]:
            source = self.space.sketches[best.sketch]
            seed = transplant(source, best.row, shape, self.rng)
            rows += [seed] + [mutate(shape, seed, self.rng) for _ in range(4)]
        return np.concatenate(rows)

    def _score(self, sketch: int, rows: Population) -> _Scored:
        rows = np.unique(rows, axis=0)
        return _ordered(sketch, rows, self.model.predict(sketch, rows))

    def _next_generation(self, scored: _Scored, count: int) -> _Scored:
        sketch = self.space.sketches[scored.sketch]
        parents = scored.rows[: self.config.parents]
        if not sketch.knobs or not len(parents):
            return scored
        weights = 1.0 / np.arange(1, len(parents) + 1)
        weights /= weights.sum()
        a = parents[self.rng.choice(len(parents), size=count, p=weights)]
        b = parents[self.rng.choice(len(parents), size=count // 2, p=weights)]
        children = np.concatenate([mutate(sketch, a, self.rng), crossover(sketch, a[: len(b)], b, self.rng)])
        new = self._score(scored.sketch, children)
        rows, first = np.unique(np.concatenate([parents, new.rows]), axis=0, return_index=True)
        seconds = np.concatenate([scored.seconds[: len(parents)], new.seconds])[first]
        return _ordered(scored.sketch, rows, seconds)

    def _descend(self) -> list[Candidate]:
        """Neighbours of the best measured candidates, by predicted time."""
        found: list[tuple[float, Candidate]] = []
        for _, best in self.measured[: self.config.descend_from]:
            rows = neighbours(self.space.sketches[best.sketch], best.row)
            if len(rows):
                seconds = self.model.predict(best.sketch, rows)
                found += [
                    (t, Candidate(best.sketch, tuple(map(int, r))))
                    for t, r in zip(seconds, rows, strict=True)
                ]
        return [c for _, c in sorted(found, key=lambda f: (f[0], f[1].sketch, f[1].row))]

    def _varied(self, scored: list[_Scored], count: int) -> list[Candidate]:
        """Candidates drawn at random, the likelier the faster they are predicted to be."""
        entries = _entries(scored, None)
        if not entries:
            return []
        seconds = np.array([e[0] for e in entries])
        weights = (seconds.min() / seconds) ** self.config.greed
        count = min(count, int(np.count_nonzero(weights)))
        chosen = self.rng.choice(len(entries), size=count, replace=False, p=weights / weights.sum())
        return [Candidate(*entries[i][1:]) for i in chosen]

    def _random(self) -> list[Candidate]:
        """Candidates at random; all of a small space."""
        out = []
        for i, sketch in enumerate(self.space.sketches):
            rows = _grid(sketch) if sketch.size <= 4096 else sample(sketch, 64, self.rng)
            out += [Candidate(i, tuple(map(int, r))) for r in rows]
        order = self.rng.permutation(len(out))
        return [out[i] for i in order]


def _grid(sketch: Sketch) -> Population:
    """Every candidate of a small sketch."""
    if not sketch.knobs:
        return np.zeros((1, 0), dtype=np.int64)
    rows: Population = np.indices([len(k.values) for k in sketch.knobs]).reshape(len(sketch.knobs), -1).T
    return rows[satisfies(sketch, rows)]


def _ordered(sketch: int, rows: Population, seconds: NDArray[np.float64]) -> _Scored:
    order = np.argsort(seconds, kind="stable")
    return _Scored(sketch, rows[order], seconds[order])


def _entries(scored: list[_Scored], most: int | None) -> list[tuple[float, int, tuple[int, ...]]]:
    """Predicted seconds, sketch and row; of candidates that the model cannot tell apart, the first."""
    out = []
    for s in scored:
        _, first = np.unique(s.seconds[:most], return_index=True)
        out += [(float(s.seconds[i]), s.sketch, tuple(map(int, s.rows[i]))) for i in sorted(first)]
    return out


def _merge(scored: list[_Scored]) -> list[Candidate]:
    """All candidates by predicted time."""
    return [Candidate(sketch, row) for _, sketch, row in sorted(_entries(scored, 64))]
