"""Reductions to few values in slices: when they are there, known good schedules, and what these become."""

from collections.abc import Callable

import numpy as np
import pytest
from reaching import check, with_knobs

from tunesmith.costmodel import features
from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical, parse
from tunesmith.records import Peaks, Target
from tunesmith.schedule import ComputeAt, Parallel, Part, RFactor, Schedule, Sketch, Split, Vectorize
from tunesmith.search import derive
from tunesmith.search.population import sample
from tunesmith.search.rules import Slices

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
ALONE = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)
TWO = ALONE.with_threads(2)
EAGER = Slices(least_points=1, least_terms=1)
Golden = Callable[[str, str], None]

SUM = "def f(x: f32[16777216]):\n    y = sum(x[i], i)\n    return y\n"
DOT = "def f(a: f32[4194304], b: f32[4194304]):\n    y = sum(a[i] * b[i], i)\n    return y\n"
COLUMNS = "def f(x: f32[100000, 20]):\n    y[j] = sum(x[i, j], i)\n    return y\n"
VARIANCE = "def f(x: f32[1000, 1001]):\n    return mean((x - mean(x)) * (x - mean(x)))\n"
FEW_VALUES = (SUM, DOT, COLUMNS, VARIANCE, "matmul(4,16,100000)", "gemv(3,100000)", "softmax(1,1048576)")
WORK_ENOUGH = (
    "matmul(512,512,512)",
    "matmul(64,128,4096)",
    "conv2d(h=14,w=14,ci=256,co=256,k=3,pad=1)",
    "gemv(1024,1024)",
    "dense(m=1,n=1000,k=2048)",
    "global_avg_pool(h=7,w=7,c=2048)",
    "softmax(512,1024)",
    "layer_norm(1,512)",
    "norm(1,64,64)",
)


def program(text: str) -> Program:
    return canonical(parse(text) if text.startswith("def") else operator(text))


def slices(sketch: Sketch) -> list[RFactor]:
    return [s for s in sketch.steps if isinstance(s, RFactor) and s.part is Part.SLICES]


def reach(p: Program, name: str, **knobs: int) -> Schedule:
    """The schedule of the first sketch whose name starts so; all other knobs have their least value."""
    sketch = next(s for s in derive(p, TWO, slices=EAGER).sketches if s.name.startswith(name))
    return with_knobs(sketch, **knobs)


@pytest.mark.parametrize("text", FEW_VALUES)
def test_long_reductions_to_few_values_have_slices(text: str) -> None:
    p = program(text)
    space = derive(p, TWO)
    sliced = [s for s in space.sketches if slices(s)]
    assert 0 < len(sliced) < len(space.sketches), "there are both"
    for sketch in sliced:
        assert len(slices(sketch)) == sum(s.reducer is not None for s in p.stages)
        assert all(any(s.stage == f"{x.stage}.rf" for s in sketch.steps) for x in slices(sketch))
    assert not any(slices(s) for s in derive(p, ALONE).sketches)


@pytest.mark.parametrize("text", WORK_ENOUGH)
def test_programs_with_work_for_all_threads_have_none(text: str) -> None:
    p = program(text)
    assert not any(slices(s) for s in derive(p, TWO).sketches)


def test_a_sum_goes_by_four_slices_side_by_side_in_each_thread(golden: Golden) -> None:
    p = parse("def f(x: f32[1024]):\n    y = sum(x[i], i)\n    return y\n")
    schedule = reach(p, "slices x4 x2", y_rf_rows=4)
    assert RFactor("y", "i", 128, Part.SLICES) in schedule.steps
    assert Parallel("y.rf", "lane.0") in schedule.steps
    golden("slices_of_a_sum", check(p, schedule))


def test_a_small_matmul_has_its_register_tile_in_every_slice(golden: Golden) -> None:
    p = parse(
        "def f(a: f32[4, 101], b: f32[101, 16]):\n    c[i, j] = sum(a[i, k] * b[k, j], k)\n    return c\n"
    )
    schedule = reach(p, "slices x1 riri", c_rf_i_reg=4, c_rf_vectors=2, c_rf_lanes=8)
    assert Split("c.rf", "j", (1, 2, 8)) in schedule.steps
    golden("slices_of_a_matmul", check(p, schedule))


def test_three_rows_times_a_vector_share_its_loads_in_every_slice() -> None:
    p = parse("def f(a: f32[3, 200], x: f32[200]):\n    y[i] = sum(a[i, k] * x[k], k)\n    return y\n")
    text = check(p, reach(p, "slices x1 dots", y_rf_i_reg=3, y_rf_k_unroll=2))
    assert "parallel y.rf.lane*i.0 in 2" in text
    assert "unroll y.rf.acc.rf.i in 3" in text


def test_columns_are_added_up_in_registers_of_every_slice() -> None:
    p = parse("def f(x: f32[90, 20]):\n    y[j] = sum(x[i, j], i)\n    return y\n")
    schedule = reach(p, "slices x1 riri", y_rf_vectors=3, y_rf_lanes=8, y_rf_i_unroll=4)
    assert Vectorize("y.rf", "j.3") in schedule.steps
    assert any(isinstance(s, ComputeAt) and s.stage == "y.rf.acc" for s in schedule.steps)
    check(p, schedule)


def test_all_stages_of_one_long_row_are_shared() -> None:
    p = operator("softmax(1,32768)")
    text = check(p, reach(p, "slices x1 x4 x4"))
    regions = [line.split()[1] for line in text.splitlines() if line.startswith("  parallel")]
    assert len(regions) == 4, "the largest, the exponentials, their sum, the quotients"


def test_what_little_comes_after_slices_is_not_for_threads() -> None:
    p = parse("def f(a: f32[4, 99], b: f32[99, 16]):\n    return relu(a @ b + 1)\n")
    text = check(p, reach(p, "slices x1 riri"))
    assert text.count("parallel") == 1


@pytest.mark.parametrize("text", FEW_VALUES)
def test_the_prior_prefers_slices_where_threads_would_wait(text: str) -> None:
    p, rng = program(text), np.random.default_rng(0)
    times: dict[bool, float] = {}
    for sketch in derive(p, TWO).sketches:
        seconds = float(features(p, sketch, sample(sketch, 200, rng), TWO).prior_s.min())
        kind = bool(slices(sketch)) or "chunks" in sketch.name
        times[kind] = min(seconds, times.get(kind, np.inf))
    assert times[True] < times.get(False, np.inf)


def test_the_prior_knows_how_evenly_threads_share() -> None:
    """Three rows by two and one take two rows' time; slices of them take one and a half."""
    p = parse("def f(x: f32[3, 4096]):\n    y[i] = sum(x[i, k], k)\n    return y\n")

    def seconds(name: str, target: Target, **knobs: int) -> float:
        sketch = next(s for s in derive(p, target, slices=EAGER).sketches if s.name == name)
        row = [k.values.index(knobs.get(k.name.split(".")[-1], k.values[0])) for k in sketch.knobs]
        return float(features(p, sketch, np.array([row]), target).prior_s[0])

    entry = 1e-6
    for rows in (1, 2):
        alone, together = (seconds("x8", t, rows=rows) for t in (ALONE, TWO))
        assert together - entry == pytest.approx(alone * 2 / 3, rel=0.02)
    alone, together = seconds("x8", ALONE, rows=1), seconds("slices x1 x8", TWO, rows=1)
    assert together - entry == pytest.approx(alone / 2, rel=0.1)
