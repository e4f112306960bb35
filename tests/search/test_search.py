"""Ask and tell: what is proposed, how often, and in what order."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tunesmith.frontend import operator
from tunesmith.ir import canonical
from tunesmith.records import Peaks, Target
from tunesmith.schedule import IllegalStep, identity, lower
from tunesmith.search import Candidate, Search, derive
from tunesmith.search.population import sample
from tunesmith.search.space import Space

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
AVX2 = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)


class Hidden:
    """A cost that the search must find by being told: distance of the knobs from a point."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.seen: list[tuple[int, tuple[int, ...], float | None]] = []

    def seconds(self, sketch: int, row: Sequence[int]) -> float:
        knobs = self.space.sketches[sketch].knobs
        away = [abs(int(v) - len(k.values) // 2) for v, k in zip(row, knobs, strict=True)]
        return 1.0 + sketch + float(sum(away))

    def features(self, sketch: int, population: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.array([[self.seconds(sketch, row)] for row in population], dtype=np.float32).reshape(-1, 1)

    def predict(self, sketches: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.float64]:
        return features[:, 0].astype(np.float64)

    def imagine(
        self, sketches: NDArray[np.int64], features: NDArray[np.float32], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        return self.predict(sketches, features) * rng.uniform(0.9, 1.1, len(features))

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        self.seen += outcomes


def make(text: str = "matmul(64,64,64)", seed: int = 0) -> tuple[Search, Hidden]:
    space = derive(canonical(operator(text)), AVX2)
    model = Hidden(space)
    return Search(space, model, np.random.default_rng(seed)), model


def run(search: Search, model: Hidden, rounds: int) -> list[Candidate]:
    out: list[Candidate] = []
    for _ in range(rounds):
        batch = search.propose(8)
        search.tell([(c, model.seconds(c.sketch, c.row)) for c in batch])
        out += batch
    return out


def test_nothing_is_proposed_twice() -> None:
    search, model = make()
    found = run(search, model, 8)
    assert len(found) == 64
    assert len({search.schedule(c).hash for c in found}) == 64


def test_the_same_seed_proposes_the_same() -> None:
    first, second, other = (run(*make(seed=s), 4) for s in (1, 1, 2))
    assert first == second
    assert first != other


def test_it_beats_many_random_samples_of_a_known_cost() -> None:
    search, model = make()
    run(search, model, 10)
    rng = np.random.default_rng(9)
    sampled = [model.features(i, sample(s, 3000, rng)).min() for i, s in enumerate(search.space.sketches)]
    assert search.measured[0][0] <= min(sampled)


def test_known_schedules_are_not_proposed() -> None:
    search, _ = make()
    known = [search.schedule(c) for c in search.propose(8)]
    again, _ = make()
    again.forget(known)
    assert not {s.hash for s in known} & {again.schedule(c).hash for c in again.propose(16)}


@pytest.mark.parametrize("text", ["sumsq(16,16)", "relu_muladd(64)"])
def test_a_small_space_is_walked_through_and_then_exhausted(text: str) -> None:
    search, model = make(text)
    found = run(search, model, 40)
    assert search.propose(8) == []
    assert len({search.schedule(c).hash for c in found}) == len(found) > 1


def test_failures_are_told_to_the_model() -> None:
    search, model = make()
    (candidate,) = search.propose(1)
    search.tell([(candidate, None)])
    assert model.seen == [(candidate.sketch, candidate.row, None)]
    assert search.measured == []


def seeds_of(search: Search, count: int) -> list[Candidate]:
    rng, sketch = np.random.default_rng(7), search.space.sketches[3]
    return [Candidate(3, tuple(map(int, row))) for row in sample(sketch, count, rng)]


def test_seeds_get_a_share_of_the_first_batches_and_no_more() -> None:
    """They may mislead: the model has its say as well."""
    search, _ = make()
    seeds = seeds_of(search, 6)
    search.seed(seeds)
    first = search.propose(4)
    assert first[:2] == seeds[:2] and not set(first[2:]) & set(seeds)
    assert search.propose(4)[:2] == seeds[2:4]
    plain = make()[0].propose(4)
    assert plain[0] in first, "the best predicted is there as without seeds"


def test_seeds_are_in_the_pools_and_known_ones_are_not_proposed() -> None:
    search, _ = make()
    seeds = seeds_of(search, 2)
    search.forget([search.schedule(seeds[0])])
    search.seed(seeds)
    assert search.propose(4)[0] == seeds[1]
    assert np.array(seeds[0].row).tobytes() in search.pools[3].known


def test_the_same_seeds_propose_the_same() -> None:
    searches = [make() for _ in range(2)]
    for search, _ in searches:
        search.seed(seeds_of(search, 3))
    assert run(*searches[0], 3) == run(*searches[1], 3)


def test_what_would_be_the_same_code_has_one_identity() -> None:
    """Over random candidates: nests of one identity are equal; and tails that matter to nothing are told."""
    rng = np.random.default_rng(0)
    merged = 0
    for text in ("matmul(8,16,12)", "conv2d(h=5,w=5,ci=4,co=16,k=3,pad=1)", "softmax(6,20)"):
        program = canonical(operator(text))
        nests: dict[object, str] = {}
        for sketch in derive(program, AVX2).sketches:
            for row in sample(sketch, 8, rng):
                schedule = sketch.decode(row)
                code = identity(program, schedule)
                try:
                    nest = str(lower(program, schedule))
                except IllegalStep:
                    continue
                merged += code in nests
                assert nests.setdefault(code, _renamed(nest)) == _renamed(nest)
    assert merged > 4


def _renamed(nest: str) -> str:
    """Without the names of loop variables, numbered as they come, nor where a tile's start is computed."""
    nest = "\n".join(line for line in nest.splitlines() if ".base = min(" not in line)
    names: dict[str, str] = {}
    return re.sub(r"[a-z]\w*(\.\w+)+", lambda m: names.setdefault(m[0], f"v{len(names)}"), nest)
