"""The spaces that the rules derive: what is in them, and what happens when a rule fails."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical, parse
from tunesmith.records import Peaks, Target
from tunesmith.schedule import IllegalStep, Pack, Parallel, Part, RFactor, Schedule, Split, lower, replay
from tunesmith.search import derive
from tunesmith.search.default import default_schedule
from tunesmith.search.draft import Draft
from tunesmith.search.population import crossover, mutate, neighbours, sample, satisfies
from tunesmith.search.rules import DEFAULT_RULES, Hardware

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
AVX2 = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)
AVX512 = Target(
    "x86_64-linux-gnu", "znver4", "+avx512f", "test", 2, 2, 1 << 15, 1 << 20, 1 << 25, 64, 64, 32, PEAKS
)
OPERATORS = (
    "matmul(32,32,32)",
    "matmul(7,13,11)",
    "matmul(1,40,24)",
    "batch_matmul(3,8,9,10)",
    "gemv(9,40)",
    "dense(m=5,n=24,k=16,act='gelu')",
    "conv1d(l=9,ci=4,co=16,k=3,pad=1)",
    "conv2d(h=7,w=6,ci=4,co=16,k=3,pad=1,bias=True,act='relu')",
    "conv2d(h=9,w=9,ci=3,co=8,k=3,stride=2,pad=1,dilation=2)",
    "conv2d_nchw(ci=3,h=6,w=16,co=4,k=3,pad=1)",
    "conv2d_transpose(h=3,w=3,ci=4,co=8)",
    "conv2d_capsule(h=4,w=4,ci=3,co=8,stride=1)",
    "group_conv2d(h=6,w=6,ci=8,co=16,groups=2,pad=1)",
    "depthwise_conv2d(h=7,w=7,c=16,k=3,pad=1)",
    "max_pool2d(h=8,w=8,c=8,k=2)",
    "transpose_batch_matmul(seq=8,heads=3,dim=8)",
    "softmax(5,33)",
    "layer_norm(3,40)",
    "sumsq(6,37)",
    "norm(1,9,20)",
    "relu_muladd(100)",
    "transpose(24,17)",
    "attention(h=2,m=9,d=8)",
)
FEW_VALUES = (
    "def f(x: f32[16777216]):\n    y = sum(x[i], i)\n    return y\n",
    "def f(x: f32[100000, 20]):\n    y[j] = sum(x[i, j], i)\n    return y\n",
    "def f(x: f32[1000, 1001]):\n    return mean((x - mean(x)) * (x - mean(x)))\n",
    "matmul(4,16,100000)",
    "gemv(3,100000)",
    "softmax(1,1048576)",
)


def program(text: str) -> Program:
    return canonical(operator(text))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512 two threads"])
@pytest.mark.parametrize("text", OPERATORS)
def test_candidates_of_every_sketch_lower(text: str, target: Target) -> None:
    """Nearly all: what rules propose is meant to be legal, and the rest is refused by IllegalStep."""
    p, rng = program(text), np.random.default_rng(0)
    space = derive(p, target)
    assert space.sketches and not space.disabled
    tried = refused = 0
    for sketch in space.sketches[:: max(1, len(space.sketches) // 12)]:
        for row in sample(sketch, 2, rng):
            schedule = sketch.decode(row)
            assert sketch.decode(sketch.encode(schedule) or ()) == schedule
            tried += 1
            try:
                lower(p, schedule)
            except IllegalStep:
                refused += 1
    assert refused <= tried // 8


@pytest.mark.parametrize("text", OPERATORS)
def test_the_default_schedule_is_always_legal(text: str) -> None:
    p = program(text)
    for target in (AVX2, AVX512):
        lower(p, default_schedule(p, target))


@pytest.mark.parametrize("text", FEW_VALUES)
def test_few_values_of_long_reductions_keep_all_threads_busy_without_tuning(text: str) -> None:
    p = canonical(parse(text)) if "def" in text else program(text)
    for target in (AVX2.with_threads(2), AVX512.with_threads(3)):
        schedule = default_schedule(p, target)
        found = [s for s in schedule.steps if isinstance(s, RFactor) and s.part is Part.SLICES]
        assert len(found) == sum(s.reducer is not None for s in p.stages)
        assert all(Parallel(f"{s.stage}.rf", "lane") in schedule.steps for s in found)
        lower(p, schedule)


def test_the_classic_matmul_is_reachable() -> None:
    """A 6×16 register tile over a packed operand, in any blocking: the schedule of hand-written libraries."""
    space = derive(program("matmul(512,512,512)"), AVX2)
    sketch = next(s for s in space.sketches if any(isinstance(x, Pack) for x in s.steps))
    wanted = {"t0.i0.reg": 6, "t0.vectors": 2, "t0.lanes": 8}
    row = [k.values.index(wanted[k.name]) if k.name in wanted else 0 for k in sketch.knobs]
    assert satisfies(sketch, np.array([row])).all()
    tiles = [s.factors for s in sketch.decode(row).steps if isinstance(s, Split)]
    assert (1, 6) in tiles and (1, 2, 8) in tiles


def test_elementwise_consumers_are_fused() -> None:
    """Bias and activation never cost a pass over memory: no whole intermediate exists in any sketch."""
    p = program("dense(m=16,n=32,k=16,act='gelu')")
    for sketch in derive(p, AVX2).sketches:
        nest = lower(p, sketch.decode(sample(sketch, 1, np.random.default_rng(1))[0]))
        assert [b.name for b in nest.buffers if b.role == "temp"] == []


@dataclass(frozen=True)
class Failing:
    name: str = "failing"

    def apply(self, draft: Draft, stage: str, hardware: Hardware, most: int) -> list[Draft]:
        raise ZeroDivisionError("a fault of the rule")


def test_a_rule_that_fails_is_disabled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    space = derive(program("matmul(8,8,8)"), AVX2, (Failing(), *DEFAULT_RULES))
    assert space.sketches
    assert space.disabled == ("failing: ZeroDivisionError: a fault of the rule",)
    assert "is disabled for this program" in caplog.text


Operation = Callable[[np.random.Generator], object]


def test_evolution_stays_under_the_ceilings() -> None:
    rng = np.random.default_rng(3)
    for sketch in derive(program("conv2d(h=14,w=14,ci=16,co=32,k=3,pad=1)"), AVX2).sketches[:6]:
        rows = sample(sketch, 64, rng)
        others = sample(sketch, len(rows), rng)[: len(rows)]
        rows = rows[: len(others)]
        near = neighbours(sketch, tuple(map(int, rows[0])))
        for population in (rows, mutate(sketch, rows, rng), crossover(sketch, rows, others, rng), near):
            assert satisfies(sketch, population).all()
            for i, knob in enumerate(sketch.knobs):
                assert ((population[:, i] >= 0) & (population[:, i] < len(knob.values))).all()


def test_long_programs_have_small_spaces() -> None:
    """Variants of several stages multiply; each still has a choice, and deriving stays quick."""
    layers = "\n".join(f"    y{n} = relu(y{n - 1} @ w)" for n in range(1, 9))
    text = f"def deep(x: f32[8, 16], w: f32[16, 16]):\n    y0 = relu(x @ w)\n{layers}\n    return y8\n"
    space = derive(canonical(parse(text)), AVX2)
    assert 2 <= len(space.sketches) <= 64


def test_a_hundred_stages() -> None:
    lines = ["def chain(x: f32[8, 16]):", "    y0 = x + 1"]
    lines += [f"    y{n} = relu(y{n - 1} * 2 + x)" for n in range(1, 100)]
    p = canonical(parse("\n".join([*lines, "    return y99\n"])))
    sketch = derive(p, AVX2).sketches[0]
    assert replay(p, Schedule(sketch.steps)).program.stages
