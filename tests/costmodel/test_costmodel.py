"""Features, prior and ranker."""

import numpy as np
import pytest

from tunesmith.costmodel import NAMES, Ranker, features
from tunesmith.costmodel.structure import Shaper, knob_values, structure
from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical
from tunesmith.ir.loopnest import For, Stmt, walk_statements
from tunesmith.records import Peaks, Target
from tunesmith.schedule import IllegalStep, Sketch, lower
from tunesmith.search import derive
from tunesmith.search.population import sample
from tunesmith.search.ports import seconds_of

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
TARGET = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)
OPERATORS = (
    "matmul(64,64,64)",
    "dense(m=16,n=32,k=32,act='gelu')",
    "conv2d(h=8,w=8,ci=16,co=32,k=3,pad=1,bias=True,act='relu')",
    "conv2d_transpose(h=4,w=4,ci=16,co=16)",
    "depthwise_conv2d(h=8,w=8,c=32,k=3,pad=1)",
    "softmax(16,64)",
    "layer_norm(8,64)",
    "norm(1,32,32)",
    "attention(h=2,m=16,d=16)",
    "transpose(32,32)",
)


def program(text: str) -> Program:
    return canonical(operator(text))


def population(sketch: Sketch, count: int = 40) -> np.ndarray:
    return sample(sketch, count, np.random.default_rng(0))


@pytest.mark.parametrize("text", OPERATORS)
def test_features_are_finite_and_named(text: str) -> None:
    p = program(text)
    for sketch in derive(p, TARGET).sketches:
        rows = population(sketch)
        found = features(p, sketch, rows, TARGET)
        assert found.matrix.shape == (len(rows), len(set(NAMES)))
        assert np.isfinite(found.matrix).all()
        assert (found.prior_s > 0).all()


@pytest.mark.parametrize("text", OPERATORS)
def test_a_population_gives_what_each_candidate_gives_alone(text: str) -> None:
    p = program(text)
    for sketch in derive(p, TARGET).sketches[::7]:
        rows = population(sketch, 12)
        together = features(p, sketch, rows, TARGET)
        alone = [features(p, sketch, row[None], TARGET) for row in rows]
        np.testing.assert_allclose(together.prior_s, [f.prior_s[0] for f in alone])
        np.testing.assert_allclose(together.matrix, np.concatenate([f.matrix for f in alone]), rtol=1e-5)


def _extents(stmts: tuple[Stmt, ...]) -> dict[str, int]:
    """The largest extent of every loop of a nest; loops of one trip leave no trace there."""
    out: dict[str, int] = {}
    for s in walk_statements(stmts):
        if isinstance(s, For):
            out[s.var] = max(out.get(s.var, 1), s.extent)
    return out


@pytest.mark.parametrize("text", [t for t in OPERATORS if not t.startswith("norm")])
def test_extents_over_arrays_are_those_of_the_lowered_nest(text: str) -> None:
    """Where tiles divide, loop by loop; tails give the nest more and shorter loops."""
    p, checked = program(text), 0
    for sketch in derive(p, TARGET).sketches[:8]:
        rows = population(sketch, 6)
        found = Shaper(structure(p, sketch), knob_values(sketch, rows)).shapes()
        for i, row in enumerate(rows):
            try:
                nest = lower(p, sketch.decode(row))
            except IllegalStep:
                continue
            real = _extents(nest.body)
            for shape in (s for s in found if s.stage is not None):
                for loop in (x for x in shape.loops if x.own):
                    expected = int(np.broadcast_to(loop.extent, len(rows))[i])
                    if loop.name in real:
                        assert real[loop.name] <= expected
                        checked += real[loop.name] == expected
    assert checked > 20


def test_the_prior_knows_a_good_tile_from_a_bad_one() -> None:
    p = program("matmul(512,512,512)")
    sketch = next(s for s in derive(p, TARGET).sketches if "pack" in s.name and "blocks" not in s.name)

    def time_of(**knobs: int) -> float:
        wanted = {"t0.lanes": 8, **{f"t0.{k.replace('_', '.')}": v for k, v in knobs.items()}}
        row = [k.values.index(wanted[k.name]) if k.name in wanted else 0 for k in sketch.knobs]
        return float(features(p, sketch, np.array([row]), TARGET).prior_s[0])

    good = time_of(i0_reg=6, vectors=2, i0_mid=16)
    assert good < 0.6 * time_of(i0_reg=1, vectors=1, i0_mid=16), "one accumulator waits for itself"
    assert good < 0.9 * time_of(i0_reg=14, vectors=1, i0_mid=8), "no register left for operands"


def test_the_ranker_learns_what_the_prior_gets_wrong() -> None:
    p = program("matmul(64,64,64)")
    sketches = derive(p, TARGET).sketches
    ranker = Ranker(p, sketches, TARGET)
    rows = population(sketches[0], 200)
    column = sketches[0].column["t0.vectors"]
    prior = features(p, sketches[0], rows, TARGET).prior_s
    truth = prior * np.where(rows[:, column] > 0, 5.0, 1.0)
    for start in range(0, 120, 20):
        part = range(start, start + 20)
        ranker.observe([(0, tuple(map(int, rows[i])), float(truth[i])) for i in part])
    unseen = slice(120, 200)
    guess = np.log(seconds_of(ranker, 0, rows[unseen]) / prior[unseen])
    assert guess[rows[unseen, column] > 0].mean() > guess[rows[unseen, column] == 0].mean() + 0.5


def test_sketches_that_fail_are_trusted_less() -> None:
    p = program("matmul(64,64,64)")
    sketches = derive(p, TARGET).sketches
    ranker = Ranker(p, sketches, TARGET)
    rows = population(sketches[0], 20)
    before = seconds_of(ranker, 0, rows)
    ranker.observe([(0, tuple(map(int, r)), None) for r in rows[:10]])
    assert (seconds_of(ranker, 0, rows) > 2 * before).all()
    others = population(sketches[1])
    untouched = seconds_of(Ranker(p, sketches, TARGET), 1, others)
    np.testing.assert_allclose(seconds_of(ranker, 1, others), untouched)
