"""Search: proposes candidates and is told how they did. It measures, stores and prints nothing.

A pool of candidates is kept for every sketch, their features computed once. Each round the most promising
sketches breed and some others get fresh blood; then all pools are ranked with what the model knows by now:

    propose = seeds, at first | some near the best measured, later
              + the best predicted + some best by a draw of what is not known yet
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tunesmith.schedule import Identity, IllegalStep, Schedule, Sketch, identity
from tunesmith.search.config import SearchConfig
from tunesmith.search.pool import Pool
from tunesmith.search.population import (
    Population,
    crossover,
    mutate,
    neighbours,
    sample,
    satisfies,
    transplant,
)
from tunesmith.search.ports import CostModel, seconds_of
from tunesmith.search.space import Candidate, Space

__all__ = ["Search"]

_SMALL = 4096  # candidates of a sketch that are all looked at
_CARRIED = 4  # mutants of a good candidate that is carried over to another sketch


class Search:
    """Evolution on predicted cost, then descent on measured times.

    Deterministic: the same space, model, seed and sequence of calls give the same candidates. Nothing is
    proposed twice, nor what would be the same code. Not thread-safe.
    """

    def __init__(
        self, space: Space, model: CostModel, rng: np.random.Generator, config: SearchConfig | None = None
    ) -> None:
        self.space = space
        self.model = model
        self.rng = rng
        self.config = config or SearchConfig()
        self.proposed: set[Candidate] = set()
        self.codes: set[Identity] = set()
        self.measured: list[tuple[float, Candidate]] = []
        self.pools: dict[int, Pool] = {}
        self.seeds: list[Candidate] = []

    def schedule(self, candidate: Candidate) -> Schedule:
        return self.space.decode(candidate)

    def tell(self, outcomes: Sequence[tuple[Candidate, float | None]]) -> None:
        """Seconds of proposed candidates; None for those that failed."""
        self.measured += [(t, c) for c, t in outcomes if t is not None]
        self.measured.sort(key=lambda m: m[0])
        self.model.observe([(c.sketch, c.row, t) for c, t in outcomes])
        for pool in self.pools.values():
            pool.forget_predictions()

    def forget(self, schedules: Sequence[Schedule]) -> None:
        """Schedules that are known already and must not be proposed."""
        for s in schedules:
            self._is_new(s)

    def seed(self, candidates: Sequence[Candidate]) -> None:
        """Candidates that there is reason to try, the most promising first. They and mutants of them are in
        the pools from the start, and a share of the first batches is theirs. Before the first proposal."""
        self.seeds += candidates

    def propose(self, count: int) -> list[Candidate]:
        """Up to ``count`` new candidates, the most promising first; fewer when the space runs out."""
        chosen: list[Candidate] = []
        early = len(self.measured) < self.config.descend_after
        self._breed()
        if early:
            self._take(chosen, self.seeds, max(1, round(count * self.config.seeded)))
        else:
            self._take(chosen, self._near_the_best(), round(count * self.config.descend_share))
        explored = round(
            (count - len(chosen)) * self.config.explore_early if early else count * self.config.explore
        )
        sketches, features = self._all()
        ranking = self._ordered(sketches, np.concatenate([p.seconds() for p in self.pools.values()]))
        self._take(chosen, ranking, count - explored)
        while len(chosen) < count:
            drawn = self._ordered(sketches, self.model.imagine(sketches, features, self.rng))
            if not self._take(chosen, drawn, len(chosen) + 1):
                break
        self._take(chosen, ranking, count)
        if len(chosen) < count:
            self._take(chosen, self._random(), count)
        return chosen

    def _take(self, chosen: list[Candidate], candidates: Iterable[Candidate], until: int) -> bool:
        """Add candidates whose code is new, up to a number; whether there were enough."""
        if len(chosen) >= until:
            return True
        for c in candidates:
            if c not in self.proposed:
                self.proposed.add(c)
                if self._is_new(self.schedule(c)):
                    chosen.append(c)
                    if len(chosen) >= until:
                        return True
        return False

    def _is_new(self, schedule: Schedule) -> bool:
        """Whether no schedule of the same code was seen; from now on it was."""
        try:
            code = identity(self.space.program, schedule)
        except IllegalStep:  # of another space
            return False
        new = code not in self.codes
        self.codes.add(code)
        return new

    # -- evolution ----------------------------------------------------------------------------------------

    def _breed(self) -> None:
        """Fresh candidates, and children of the best in the most promising sketches."""
        config, sketches = self.config, self.space.sketches
        first = not self.pools
        if first:
            share = max(64, config.first // len(sketches))
            for i, sketch in enumerate(sketches):
                rows = [sample(sketch, share, self.rng), *self._seeded(i)]
                self.pools[i] = Pool.of(i, np.concatenate(rows), self.model)
        else:
            for i in self.rng.permutation(len(sketches))[: config.watched]:
                self.pools[int(i)].add(self._blood(int(i)))
        for _ in range(config.early if first else config.generations):
            for pool, seconds in self._promising():
                order = np.argsort(seconds, kind="stable")
                pool.add(self._children(pool, order))
        for pool in self.pools.values():
            if len(pool) > 2 * config.kept:
                pool.keep(np.argsort(pool.seconds(), kind="stable")[: config.kept])

    def _promising(self) -> list[tuple[Pool, NDArray[np.float64]]]:
        """The pools to breed, with predicted seconds: those with the best predictions."""
        found = [
            (p, p.seconds()) for p in self.pools.values() if len(p) and self.space.sketches[p.sketch].knobs
        ]
        found.sort(key=lambda f: (float(f[1].min()), f[0].sketch))
        return found[: self.config.bred]

    def _seeded(self, i: int) -> list[Population]:
        """The seeds of a sketch with mutants of them."""
        sketch, out = self.space.sketches[i], []
        for row in (np.array([s.row], dtype=np.int64) for s in self.seeds if s.sketch == i):
            out += [row, mutate(sketch, np.repeat(row, _CARRIED, axis=0), self.rng)]
        return out

    def _blood(self, i: int) -> Population:
        """Random candidates, and the best measured ones carried over from their sketches."""
        sketch = self.space.sketches[i]
        rows = [sample(sketch, self.config.fresh, self.rng)]
        for _, best in self.measured[: self.config.descend_from]:
            seed = transplant(self.space.sketches[best.sketch], best.row, sketch, self.rng)
            rows += [seed] + [mutate(sketch, seed, self.rng) for _ in range(_CARRIED)]
        return np.concatenate(rows)

    def _children(self, pool: Pool, order: NDArray[np.int64]) -> Population:
        sketch, count = self.space.sketches[pool.sketch], self.config.children
        parents = pool.rows[order[: self.config.parents]]
        weights = 1.0 / np.arange(1, len(parents) + 1)
        weights /= weights.sum()
        a = parents[self.rng.choice(len(parents), size=count, p=weights)]
        b = parents[self.rng.choice(len(parents), size=count // 3, p=weights)]
        crossed = crossover(sketch, a[: len(b)], b, self.rng)
        return np.concatenate([mutate(sketch, a[len(b) :], self.rng), crossed])

    # -- what to measure next -----------------------------------------------------------------------------

    def _all(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        pools = list(self.pools.values())
        sketches = np.repeat([p.sketch for p in pools], [len(p) for p in pools])
        return sketches, np.concatenate([p.features for p in pools])

    def _ordered(self, sketches: NDArray[np.int64], seconds: NDArray[np.float64]) -> Iterable[Candidate]:
        """All pools by seconds; of candidates that the model cannot tell apart, the first."""
        starts = dict(zip(self.pools, np.cumsum([0, *(len(p) for p in self.pools.values())]), strict=False))
        last = (-1, -1.0)
        for i in np.argsort(seconds, kind="stable"):
            sketch = int(sketches[i])
            if (sketch, seconds[i]) != last:
                yield Candidate(sketch, tuple(map(int, self.pools[sketch].rows[i - starts[sketch]])))
            last = (sketch, float(seconds[i]))

    def _near_the_best(self) -> list[Candidate]:
        """Neighbours of the best measured candidates, by predicted time."""
        best = [c for _, c in self.measured[: self.config.descend_from]]
        found: list[tuple[float, Candidate]] = []
        for i in sorted({c.sketch for c in best}):
            sketch = self.space.sketches[i]
            rows = np.concatenate([neighbours(sketch, c.row) for c in best if c.sketch == i])
            if len(rows):
                rows = np.unique(rows, axis=0)
                seconds = seconds_of(self.model, i, rows)
                candidates = (Candidate(i, tuple(map(int, r))) for r in rows)
                found += zip(map(float, seconds), candidates, strict=True)
        return [c for _, c in sorted(found, key=lambda f: (f[0], f[1].sketch, f[1].row))]

    def _random(self) -> list[Candidate]:
        """Candidates at random; all of a small space."""
        out = []
        for i, sketch in enumerate(self.space.sketches):
            rows = _grid(sketch) if sketch.size <= _SMALL else sample(sketch, 64, self.rng)
            out += [Candidate(i, tuple(map(int, r))) for r in rows]
        order = self.rng.permutation(len(out))
        return [out[i] for i in order]


def _grid(sketch: Sketch) -> Population:
    """Every candidate of a small sketch."""
    if not sketch.knobs:
        return np.zeros((1, 0), dtype=np.int64)
    rows: Population = np.indices([len(k.values) for k in sketch.knobs]).reshape(len(sketch.knobs), -1).T
    return rows[satisfies(sketch, rows)]
