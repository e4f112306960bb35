"""Which steps are legal, and what is said about the others."""

import copy

import numpy as np
import pytest

from tunesmith.ir import Program, evaluate, parse, run_nest
from tunesmith.schedule import (
    PREPARE,
    ROOT,
    CacheWrite,
    ComputeAt,
    Fuse,
    IllegalStep,
    Inline,
    Join,
    Pack,
    Parallel,
    Part,
    Reorder,
    RFactor,
    Schedule,
    Split,
    Step,
    Stream,
    Unroll,
    Vectorize,
    lower,
    replay,
)

CHAIN = """
def chain(x: f32[12, 10], w: const[f32[10, 6]], b: f32[6]):
    u[i, k] = exp(x[i, k])
    y[i, j] = sum(u[i, k] * w[k, j], k)
    z[i, j] = y[i, j] + b[j]
    return z, sum(x[i, k], (i, k))
"""


SUMS = """
def sums(x: f32[12, 10]):
    u[i, k] = x[i, k] * 2
    p[i] = sum(u[i, k], k)
    q[i] = sum(u[i, k] * u[i, k], k)
    d[i, k] = u[i, k] - p[i]
    v[i] = u[i, 9] + u[11 - i, 0]
    return q, d, v
"""
TWICE = "def twice(x: f32[9]):\n    u[i] = x[i]\n    v[i] = u[i] * u[8 - i]\n    return v\n"


@pytest.fixture
def chain() -> Program:
    return parse(CHAIN)


CASES: list[tuple[str, tuple[Step, ...], str]] = [
    ("a stage that is not there", (Unroll("q", "i"),), "no stage q; there are u, y, z"),
    ("a loop that is not there", (Unroll("z", "k"),), "no loop k in z; its loops are i, j"),
    ("an output inlined", (Inline("z"),), "an output cannot be inlined"),
    ("a reduction inlined", (Inline("y"),), "a reduction cannot be inlined"),
    ("a cache for no reduction", (CacheWrite("z"),), "it reduces nothing"),
    ("two caches", (CacheWrite("y"), CacheWrite("y")), "it reduces nothing"),
    ("a factor of one", (RFactor("y", "k", 1),), "the factor must be in 2..10"),
    ("a factor too large", (RFactor("y", "k", 11),), "the factor must be in 2..10"),
    ("a spatial axis factored", (RFactor("y", "j", 2),), "no reduce axis j"),
    ("stages changed after their loops", (Split("y", "i", (2,)), CacheWrite("y")), "already has loop steps"),
    ("no factors", (Split("z", "i", ()),), "factors must be positive"),
    ("a factor of nothing", (Split("z", "i", (4, 0)),), "factors must be positive"),
    ("a loop split twice", (Split("z", "i", (4,)), Split("z", "i", (2,))), "no loop i in z"),
    ("a fused loop split", (Fuse("z", "i", "j"), Split("z", "i*j", (2,))), "split before fusing"),
    ("loops apart fused", (Fuse("y", "i", "k"),), "k does not follow i"),
    ("a reduction fused with another loop", (Fuse("y", "j", "k"),), "one loop reduces"),
    ("a loop named twice", (Reorder("z", ("i", "i")),), "named twice"),
    ("a loop unrolled and vectorized", (Unroll("z", "j"), Vectorize("z", "j")), "j is unroll already"),
    ("two vectors", (Vectorize("z", "j"), Vectorize("z", "i")), "has a vectorized loop already"),
    ("a fused loop vectorized", (Fuse("z", "i", "j"), Vectorize("z", "i*j")), "a fused loop cannot be"),
    ("an inner loop parallel", (Parallel("z", "j"),), "j is parallel and not the outermost loop"),
    ("a reduction parallel", (Reorder("y", ("k", "i", "j")), Parallel("y", "k")), "factor it out first"),
    (
        "a parallel loop moved inwards",
        (Parallel("z", "i"), Reorder("z", ("j", "i"))),
        "i is parallel and not the outermost loop",
    ),
    ("a stage computed outside of a reader", (ComputeAt("u", "z", "i"),), "y reads u outside of z.i"),
    ("an output computed elsewhere", (ComputeAt("z", "y", "i"),), "z is an output"),
    ("a stage computed twice", (ComputeAt("y", "z", "i"), ComputeAt("y", "z", "j")), "at z.i already"),
    ("a parallel stage computed inside", (Parallel("y", "i"), ComputeAt("y", "z", "i")), "y is parallel"),
    ("a stage made parallel inside", (ComputeAt("y", "z", "i"), Parallel("y", "i")), "computed inside z"),
    ("a place that is split", (ComputeAt("y", "z", "i"), Split("z", "i", (4,))), "a stage is computed at i"),
    ("a place that is moved", (ComputeAt("y", "z", "i"), Reorder("z", ("j", "i"))), "computed at i"),
    ("a stage inside lanes", (Vectorize("z", "j"), ComputeAt("y", "z", "j")), "inside a vectorized loop"),
    ("lanes around a stage", (ComputeAt("y", "z", "j"), Vectorize("z", "i")), "inside the vectorized i"),
    (
        "lanes moved around a stage",
        (Split("z", "j", (2,)), ComputeAt("y", "z", "j.0"), Vectorize("z", "j.1"),
         Reorder("z", ("j.1", "i"))),
        "inside the vectorized j.1",
    ),
    (
        "a place that a cache takes away",
        (ComputeAt("u", "y", "k"), CacheWrite("y")),
        "no loop k in a stage y, to compute u at",
    ),
    (
        "readers that a cache moves away",
        (ComputeAt("u", "y", "i"), CacheWrite("y")),
        "y.acc reads u outside of y.i",
    ),
    ("a result streamed that is none", (Stream("y"),), "only outputs"),
    ("joined with nothing", (Join("y", "q"),), "no stage q before y, to run along with"),
    ("joined with a later stage", (Join("u", "y"),), "no stage y before u"),
    ("joined twice", (Join("y", "u"), Join("y", "u")), "y runs along with another stage already"),
    ("led by a stage that is led", (Join("y", "u"), Join("z", "y")), "y runs along with u: join that"),
    ("joined across places", (ComputeAt("y", "z", "i"), Join("y", "u")), "computed in different places"),
    ("moved away from its leader", (Join("y", "u"), ComputeAt("y", "z", "i")), "in different places"),
    ("joined in a parallel loop", (Parallel("u", "i"), Join("y", "u")), "u.i, joined, is parallel"),
    ("a joined loop unrolled", (Join("y", "u"), Unroll("y", "i")), "y.i, joined, is unroll"),
    ("a joined loop fused", (Join("y", "u"), Fuse("y", "i", "j")), "no outermost loop that is one of"),
    ("a leader inlined", (Join("y", "u"), Inline("u")), "no stage u before y"),
    ("joined past what it needs", (Join("z", "u"),), "z needs y, which comes after u begins"),
    ("no such operand", (Pack("y", "x", ("y.i",)),), "no stage y that reads x"),
    ("an intermediate packed", (Pack("y", "u", ("y.i", "y.k")),), "only inputs can be packed"),
    ("a variable packed ahead", (Pack("z", "b", ("z.j",), PREPARE),), "b is not a constant input"),
    ("packed twice", (Pack("y", "w", ("y.k", "y.j")),) * 2, "packed already"),
    ("packed along nothing", (Pack("y", "w", ()),), "named once each"),
    ("packed along a loop elsewhere", (Pack("y", "w", ("z.j", "y.k")),), "z.j is not a loop around y"),
    ("packed at no place", (Pack("y", "w", ("y.k", "y.j"), "z.i"),), "z.i is not a loop around y"),
    (
        "packed at a part of a fused loop",
        (Fuse("y", "i", "j"), Pack("y", "w", ("y.k",), "y.i")),
        "y.i is not a loop around y, to pack at",
    ),
    ("packed inside lanes", (Vectorize("y", "i"), Pack("y", "w", ("y.k",), "y.j")), "inside a vectorized"),
    ("lanes around packing", (Pack("y", "w", ("y.k",), "y.j"), Vectorize("y", "i")), "inside the vectorized"),
    ("a packed loop split", (Pack("y", "w", ("y.k", "y.j")), Split("y", "k", (2,))), "packed along k"),
    ("a packed reader changed", (Pack("y", "w", ("y.k", "y.j")), CacheWrite("y")), "packed for y"),
    ("too many loops", (Split("z", "i", (1,) * 63),), "more than 64 loops"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "reason"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_an_illegal_step_is_named_with_its_reason(
    chain: Program, steps: tuple[Step, ...], reason: str
) -> None:
    *before, last = steps
    replay(chain, Schedule(tuple(before)))
    with pytest.raises(IllegalStep) as caught:
        replay(chain, Schedule(steps))
    assert reason in str(caught.value)
    assert caught.value.step == last and str(last) in str(caught.value)


LOWERING: list[tuple[str, tuple[Step, ...], str]] = [
    ("packed along too few loops", (Pack("y", "w", ("y.k",), ROOT),), "read along y.j, which is not packed"),
    (
        "packed along a loop around",
        (Pack("y", "w", ("y.j", "y.k"), "y.j"),),
        "outside of the place of packing",
    ),
    (
        "packed for an index that is two",
        (Inline("u"), Pack("v", "x", ("v.i",), ROOT)),
        "reads x at several indices",
    ),
]


JOINING: list[tuple[str, tuple[Step, ...], str]] = [
    ("iterations that are fewer", (Split("u", "i", (4,)), Join("p", "u")), "12 iterations of p.i, 3 of"),
    ("a sum that is not complete", (Reorder("p", ("k", "i")), Join("d", "p")), "complete only after p.k"),
    (
        "elements that come later",
        (Split("u", "i", (4,)), Split("v", "i", (4,)), Join("v", "u")),
        "it reads u before it is computed",
    ),
    (
        "tiles with gaps",
        (Split("u", "i", (4,)), Reorder("u", ("i.1", "i.0")), Split("p", "i", (3,)), Join("p", "u")),
        "leaves gaps along i",
    ),
]


@pytest.mark.parametrize(("steps", "reason"), [c[1:] for c in JOINING], ids=[c[0] for c in JOINING])
def test_joined_loops_that_would_read_what_is_not_there(steps: tuple[Step, ...], reason: str) -> None:
    with pytest.raises(IllegalStep, match=reason):
        lower(parse(SUMS), Schedule(steps))


def test_sums_of_one_operand_share_a_loop() -> None:
    """The leader and two that follow it, one of which reads what the other does."""
    nest = lower(parse(SUMS), Schedule((Join("p", "u"), Join("q", "u"))))
    assert "for p.i" not in str(nest) and "for q.i" not in str(nest)
    inputs = {"x": np.random.default_rng(0).standard_normal((12, 10)).astype(np.float32)}
    found = run_nest(nest, inputs)
    for name, expected in evaluate(parse(SUMS), inputs).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("steps", "reason"), [c[1:] for c in LOWERING], ids=[c[0] for c in LOWERING])
def test_some_steps_are_illegal_only_with_numbers(steps: tuple[Step, ...], reason: str) -> None:
    program = parse(CHAIN if "stage='y'" in str(steps[-1]) else TWICE)
    with pytest.raises(IllegalStep, match=reason):
        lower(program, Schedule(steps))


def test_replay_leaves_its_inputs_as_they_are(chain: Program) -> None:
    schedule = Schedule(
        (
            CacheWrite("y"), RFactor("y.acc", "k", 4, Part.OUTER), Split("z", "i", (4,)),
            ComputeAt("y", "z", "i.0"), Vectorize("z", "j"),
        )
    )  # fmt: skip
    before, steps = copy.deepcopy(chain), copy.deepcopy(schedule)
    states = [replay(chain, schedule) for _ in range(2)]
    assert states[0].plans == states[1].plans and states[0].program == states[1].program
    assert chain == before and schedule == steps
    assert str(lower(chain, schedule)) == str(lower(chain, schedule))


def test_names_of_partial_results_do_not_collide() -> None:
    program = parse("def f(x: f32[6, 8]):\n    y[lane] = sum(x[lane, k], k)\n    return y\n")
    state = replay(program, Schedule((RFactor("y", "k", 4),)))
    assert [a.name for a in state.program.stage("y.rf").axes] == ["lane", "lane2"]
