"""Schedules carried over to other shapes: what becomes of them, and what cannot be carried."""

import numpy as np
import pytest

from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical, evaluate, parse, run_nest, structure_hash
from tunesmith.records import Peaks, Target
from tunesmith.schedule import Inline, Schedule, lower
from tunesmith.search import derive
from tunesmith.search.default import default_schedule
from tunesmith.search.population import sample, satisfies
from tunesmith.search.transfer import Untranslatable, renamed, translate

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
AVX2 = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)
AVX512 = Target(
    "x86_64-linux-gnu", "znver4", "+avx512f", "test", 2, 1, 1 << 15, 1 << 20, 1 << 25, 64, 64, 32, PEAKS
)


def form(text: str) -> Program:
    return canonical(operator(text))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "text", ["matmul(96,64,80)", "conv2d(h=9,w=9,ci=16,co=32,k=3,pad=1)", "softmax(48,100)"]
)
def test_a_schedule_of_the_space_is_its_own_translation(text: str) -> None:
    program = form(text)
    space, random = derive(program, AVX2), rng()
    for i in random.permutation(len(space.sketches))[:6]:
        schedule = space.sketches[i].decode(sample(space.sketches[i], 1, random)[0])
        lower(program, schedule)
        assert space.decode(translate(schedule, space, random)) == schedule


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("matmul(96,64,80)", "matmul(100,37,64)"),
        ("conv2d(h=9,w=9,ci=16,co=32,k=3,pad=1)", "conv2d(h=14,w=10,ci=8,co=24,k=3,pad=1)"),
        ("softmax(48,100)", "softmax(33,64)"),
    ],
)
@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_most_schedules_find_their_like_on_another_shape(source: str, target: str, machine: Target) -> None:
    """Knobs keep their values where the other shape, or the other machine, has them."""
    a, b = form(source), form(target)
    assert structure_hash(a) == structure_hash(b)
    there, here, random = derive(a, machine), derive(b, AVX2), rng()
    moved = 0
    for sketch in there.sketches:
        try:
            found = translate(sketch.decode(sample(sketch, 1, random)[0]), here, random)
        except Untranslatable:
            continue
        moved += 1
        lower(b, here.decode(found))
        assert satisfies(here.sketches[found.sketch], np.array([found.row])).all()
    assert moved >= len(there.sketches) / 2


def test_knobs_go_to_the_nearest_value() -> None:
    small, large = derive(form("matmul(24,24,24)"), AVX2), derive(form("matmul(512,512,512)"), AVX2)
    sketch = large.sketches[0]
    row = [len(k.values) - 1 if k.name.endswith(".mid") else 0 for k in sketch.knobs]
    found = translate(sketch.decode(row), small, rng())
    knobs = small.sketches[found.sketch].knobs
    assert [k.values[i] for k, i in zip(knobs, found.row, strict=True) if k.name.endswith(".mid")] == [
        k.values[-1] for k in knobs if k.name.endswith(".mid")
    ]


def test_what_is_like_no_sketch_is_refused_with_the_reason() -> None:
    program = form("matmul(64,64,64)")
    space = derive(program, AVX2)
    for schedule in (default_schedule(program, AVX2), Schedule(), Schedule((Inline("t9"),))):
        with pytest.raises(Untranslatable, match=r"the sketch most like it has \d+% of its steps"):
            translate(schedule, space, rng())


GATES = "def f(x: f32[9, 7], u: f32[7, {n}], v: f32[7, {n}]):\n    return (x @ u) + (x @ v)\n"


def test_stages_that_are_called_otherwise_are_found() -> None:
    """Two products that are added: the canonical form may have either first."""
    forms = [canonical(parse(GATES.format(n=n))) for n in range(8, 24)]
    first = [f.stages[0].reads[-1] for f in forms]
    a, b = forms[first.index("x1")], forms[first.index("x2")]
    space = derive(a, AVX2)
    schedule = space.sketches[-1].decode(sample(space.sketches[-1], 1, rng())[0])
    moved = renamed(schedule, a, b)
    assert moved != schedule
    assert renamed(moved, b, a) == schedule
    inputs = {t.name: rng().standard_normal(t.shape).astype(np.float32) for t in b.inputs}
    result = run_nest(lower(b, moved), inputs)
    np.testing.assert_allclose(result["t2"], evaluate(b, inputs)["t2"], rtol=1e-5, atol=1e-5)


def test_other_stages_are_refused() -> None:
    with pytest.raises(Untranslatable, match="stages"):
        renamed(Schedule(), form("matmul(4,4,4)"), form("softmax(4,4)"))
