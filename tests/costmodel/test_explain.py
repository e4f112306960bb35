"""Explanations: terms that add up to the prior, what binds, the roofline, and effects of features."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tunesmith.costmodel import NAMES, Model, Ranker, Recipe, Samples, explain, features
from tunesmith.costmodel.anatomy import ALONE, fixed
from tunesmith.costmodel.bound import bound, held
from tunesmith.costmodel.phrases import TERMS, phrase
from tunesmith.costmodel.training import train
from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical, parse
from tunesmith.records import Peaks, Target
from tunesmith.schedule import IllegalStep, Inline, Schedule, Sketch, Split, Tail, Unroll, Vectorize
from tunesmith.search import derive
from tunesmith.search.default import default_schedule
from tunesmith.search.population import sample

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
TARGET = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)
OPERATORS = (
    "matmul(64,64,64)",
    "matmul(37,41,53)",
    "conv2d(h=8,w=8,ci=16,co=32,k=3,pad=1,bias=True,act='relu')",
    "softmax(16,64)",
    "norm(1,32,32)",
    "attention(h=2,m=16,d=16)",
    "transpose(32,32)",
)
ELEMENTWISE = "def scaled(a: f32[1000]):\n    return exp(a) * 2.0\n"
SCALAR = "def total(a: f32[1000]):\n    y = sum(a[i], i)\n    return y\n"


def program(text: str) -> Program:
    return canonical(parse(text) if text.startswith("def") else operator(text))


def schedules(p: Program, target: Target = TARGET) -> Iterator[tuple[Schedule, float]]:
    """The untuned schedule, and some of every sketch, with what the prior says of each."""
    yield default_schedule(p, target), prior(p, default_schedule(p, target), target)
    for sketch in derive(p, target).sketches[:6]:
        rows = sample(sketch, 3, np.random.default_rng(0))
        for row in rows:
            yield sketch.decode(row), float(features(p, sketch, row[None], target).prior_s[0])


def prior(p: Program, schedule: Schedule, target: Target = TARGET) -> float:
    return float(features(p, fixed(schedule), ALONE, target).prior_s[0])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", [*OPERATORS, ELEMENTWISE, SCALAR])
def test_terms_add_up_and_the_largest_binds(text: str, threads: int) -> None:
    p, target = program(text), TARGET.with_threads(threads)
    for schedule, prior_s in schedules(p, target):
        e = explain(p, schedule, target)
        assert e.prior_s == pytest.approx(prior_s)
        assert e.predicted_s == e.prior_s
        assert sum(s.time_s for s in e.stages) == pytest.approx(prior_s)
        assert sum(s.share for s in e.stages) == pytest.approx(1.0)
        for stage in e.stages:
            assert list(stage.terms) == list(TERMS)
            assert sum(t.adds_s for t in stage.terms.values()) == pytest.approx(stage.time_s)
            alone = {t: x.alone_s for t, x in stage.terms.items()}
            assert alone[stage.binding] == max(alone.values()) > 0
            assert stage.terms[stage.binding].adds_s == pytest.approx(alone[stage.binding])
            assert stage.margin is None or stage.margin >= 1.0
            assert all(x.alone_s <= stage.time_s * (1 + 1e-9) for x in stage.terms.values())
            assert all(x.saves_s >= -1e-12 for x in stage.terms.values())
            assert 0 <= stage.wasted < 1 and 0 < stage.lanes_used <= 1
        assert e.advice and {a.stage for a in e.advice} <= {s.name for s in e.stages}
        longest = max(e.stages, key=lambda s: s.time_s)
        assert (e.advice[0].stage, e.advice[0].term) == (longest.name, longest.binding)


def test_a_schedule_that_no_sketch_has_is_explained() -> None:
    p = program("matmul(48,48,48)")
    schedule = Schedule((Split("t0", "r0", (6,)), Unroll("t0", "r0.1")))
    assert derive(p, TARGET).locate(schedule) is None
    e = explain(p, schedule, TARGET)
    assert e.prior_s == pytest.approx(prior(p, schedule))
    assert (e.stages[0].lanes_used, e.stages[0].unrolled) == (1 / 8, 6)


def test_a_schedule_of_another_program_is_refused() -> None:
    with pytest.raises(IllegalStep):
        explain(program("matmul(8,8,8)"), Schedule((Inline("nothing"),)), TARGET)


def test_tails_are_wasted_work() -> None:
    p = program(ELEMENTWISE.replace("1000", "9"))

    def wasted(lanes: int) -> float:
        steps = (Split("t0", "i0", (lanes,), Tail.MASK), Vectorize("t0", "i0.1"))
        return explain(p, Schedule(steps), TARGET).stages[0].wasted

    assert wasted(8) == pytest.approx(7 / 16)


def advised(text: str, schedule: Schedule, warm: bool = False) -> dict[str, str]:
    """Advice on the stage that takes longest, by its term."""
    e = explain(program(text), schedule, TARGET, warm=warm)
    return {a.term: a.text for a in e.advice if a.stage == e.advice[0].stage}


def test_advice_follows_from_what_binds() -> None:
    plain = advised("matmul(512,512,512)", Schedule())
    assert "a larger register tile (1 of 16 registers hold sums)" in plain["loads"]
    assert plain["l2"].endswith(
        "middle tiles whose operands stay in L2, or packed operands, would reuse more"
    )
    lanes = advised("softmax(16,64)", Schedule())["arithmetic"]
    assert lanes.startswith("arithmetic binds: 12% of a vector's lanes work")
    vectors = Schedule((Split("t0", "i0", (8,), Tail.MASK), Vectorize("t0", "i0.1")))
    needed = advised(ELEMENTWISE, vectors)
    assert "functions and operations take the ports" in needed["arithmetic"]


def test_warm_operands_do_not_come_from_memory() -> None:
    """The prior counts their first touch; the advice says that it is less."""
    text = "def more(a: f32[262144]):\n    return a + 1.0\n"
    vectors = Schedule((Split("t0", "i0", (8,)), Vectorize("t0", "i0.1")))
    warm, cold = (advised(text, vectors, w) for w in (True, False))
    assert "all tensors fit L3" in warm["l3"]
    assert len(warm) > 1, "the next term is spoken of too"
    assert "all tensors fit" not in cold["l3"]


def test_the_bound_is_the_roofline() -> None:
    p = program("matmul(512,512,512)")
    warm, cold = bound(p, TARGET), bound(p, TARGET, warm=False)
    assert (warm.by, warm.flops, warm.bytes) == ("arithmetic", 2 * 512**3, 3 * 4 * 512**2)
    assert warm.time_s == pytest.approx(2 * 512**3 / 100e9)
    assert warm.times_s["memory"] == 0.0 and held(p, TARGET) == ("l3",)
    assert cold.times_s["memory"] == pytest.approx(3 * 4 * 512**2 / 20e9)
    assert held(p, TARGET, warm=False) == ()
    large = bound(program("transpose(8192,8192)"), TARGET)
    assert large.by == "memory"
    assert bound(p, TARGET.with_threads(2)).time_s == pytest.approx(warm.time_s / 2)


@pytest.fixture(scope="module")
def measured() -> tuple[Program, Sketch, np.ndarray, np.ndarray]:
    """A sketch of a product, rows of it, and seconds in which loads count twice."""
    p = program("matmul(64,64,64)")
    sketch = derive(p, TARGET).sketches[0]
    rows = sample(sketch, 40, np.random.default_rng(0))
    found = features(p, sketch, rows, TARGET)
    slow = found.matrix[:, NAMES.index("main.loads")] > np.median(found.matrix[:, NAMES.index("main.loads")])
    return p, sketch, rows, found.prior_s * np.where(slow, 2.0, 1.0)


def test_effects_make_up_the_prediction(measured: Any) -> None:
    p, sketch, rows, seconds = measured
    found = features(p, sketch, rows, TARGET)
    model = train([Samples("w", "matmul", found.matrix, found.prior_s, seconds)], Recipe(rounds=20))
    model = replace(model, scale=0.5, offset=0.3)
    ranker = Ranker(p, [sketch], TARGET, pretrained=model)
    ranker.observe([(0, tuple(map(int, r)), float(t)) for r, t in zip(rows[:30], seconds[:30], strict=True)])
    schedule = sketch.decode(rows[35])
    e = explain(p, schedule, TARGET, model, ranker)
    mine = Ranker(p, [fixed(schedule)], TARGET, pretrained=model).features(0, ALONE)
    assert e.predicted_s == pytest.approx(float(ranker.predict(np.array([0]), mine)[0]), rel=1e-4)
    assert e.pretrained is not None and e.learnt is not None
    assert (e.pretrained.trials, e.learnt.trials) == (None, 30)
    before = np.exp(model.residual(mine[:, :-1])[0])
    assert 1 + e.pretrained.change == pytest.approx(before, rel=1e-4)
    for c in (e.pretrained, e.learnt):
        factors = [1 + c.constant, 1 + c.rest, *(1 + x.change for x in c.effects)]
        assert np.prod(factors) == pytest.approx(1 + c.change)
        assert [abs(np.log1p(x.change)) for x in c.effects] == sorted(
            (abs(np.log1p(x.change)) for x in c.effects), reverse=True
        )
        assert {x.feature for x in c.effects} <= set(NAMES)


def test_a_ranker_that_knows_nothing_has_no_say(measured: Any) -> None:
    p, sketch, rows, _ = measured
    ranker = Ranker(p, [sketch], TARGET)
    assert ranker.trained == 0
    assert explain(p, sketch.decode(rows[0]), TARGET, None, ranker).learnt is None


def test_contributions_are_those_of_the_trees(measured: Any) -> None:
    p, sketch, rows, seconds = measured
    found = features(p, sketch, rows, TARGET)
    model: Model = train([Samples("w", "m", found.matrix, found.prior_s, seconds)], Recipe(rounds=10))
    parts = model.contributions(found.matrix)
    assert parts.shape == (len(rows), len(NAMES) + 1)
    np.testing.assert_allclose(parts.sum(axis=1), model.residual(found.matrix), atol=1e-5)


def test_columns_without_words_keep_their_names() -> None:
    assert phrase("prior") == "the size of the whole"
    assert phrase("a.column.of.another.version") == "a.column.of.another.version"
