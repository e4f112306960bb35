"""Tails in places where they were once wrong. Random schedules (tests/property) look for new ones."""

import numpy as np
import pytest

from tunesmith.ir import LoopNest, evaluate, parse, run_nest
from tunesmith.ir.loopnest import If, Let, walk_statements
from tunesmith.schedule import (
    ROOT,
    ComputeAt,
    Fuse,
    Pack,
    Parallel,
    Reorder,
    RFactor,
    Schedule,
    Split,
    Step,
    Tail,
    Unroll,
    Vectorize,
    lower,
)

COPY = "def f(x: f32[{n}]):\n    y[i] = x[i] * 2\n    return y\n"
SUMS = "def f(x: f32[{n}, 5]):\n    y[i] = sum(x[i, k], k)\n    return y\n"
SHIFTED = (
    "def f(x: f32[{n}, 3]):\n    u[i, j] = x[i, j] + 1\n"
    "    v[i:{n}, j] = where(i >= 2, u[i - 2, j], 0) + where(i < {n} - 1, u[i + 1, j], 0)\n    return v\n"
)


def checked(text: str, n: int, *steps: Step) -> LoopNest:
    program = parse(text.replace("{n} - 1", str(n - 1)).format(n=n))
    nest = lower(program, Schedule(steps))
    rng = np.random.default_rng(n)
    inputs = {t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in program.inputs}
    results = run_nest(nest, inputs)
    for name, expected in evaluate(program, inputs).items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-6)
    return nest


def lets(nest: LoopNest) -> int:
    return sum(isinstance(s, Let) for s in walk_statements(nest.body))


@pytest.mark.parametrize("tail", Tail)
@pytest.mark.parametrize("n", [1, 2, 5, 13, 16, 17, 31])
def test_all_tails_at_all_lengths(n: int, tail: Tail) -> None:
    checked(COPY, n, Split("y", "i", (3, 4), tail), Unroll("y", "i.1"), Vectorize("y", "i.2"))
    checked(COPY, n, Split("y", "i", (3, 4), tail), Vectorize("y", "i.2"))
    checked(COPY, n, Split("y", "i", (64,), tail), Vectorize("y", "i.1"))


def test_a_last_tile_moves_back_in_a_plain_loop() -> None:
    assert lets(checked(COPY, 13, Split("y", "i", (4,), Tail.OVERLAP), Vectorize("y", "i.1"))) == 1


def test_a_tile_with_gaps_stays_where_it_is() -> None:
    """Its elements are four apart, so that a tile moved back by one misses some."""
    steps = (Split("y", "i", (2, 2), Tail.OVERLAP), Unroll("y", "i.0"), Reorder("y", ("i.1", "i.2", "i.0")))
    assert lets(checked(COPY, 13, *steps)) == 0


def test_many_partial_trips_share_their_code() -> None:
    """Every trip from the 500th on leaves out the last element of its tile."""
    steps = (Split("y", "i", (1000,)), Unroll("y", "i.0"), Reorder("y", ("i.1", "i.0")))
    nest = checked(COPY, 3500, *steps)
    assert len(str(nest).splitlines()) < 12


@pytest.mark.parametrize("n", range(10, 20))
def test_conditions_of_inner_splits_move_with_the_tile(n: int) -> None:
    steps = (Split("y", "i", (7,), Tail.OVERLAP), Split("y", "i.1", (4,), Tail.PEEL), Unroll("y", "i.1.1"))
    checked(COPY, n, *steps)


def test_threads_never_accumulate_into_the_same_elements() -> None:
    steps = (Split("y", "i", (4,), Tail.OVERLAP), Parallel("y", "i.0"), Reorder("y", ("i.0", "k", "i.1")))
    assert lets(checked(SUMS, 13, *steps, Unroll("y", "i.1"))) == 0


@pytest.mark.parametrize("tail", Tail)
def test_lanes_outside_of_serial_loops(tail: Tail) -> None:
    """A limit of an inner loop would depend on the lane; interpreter and compiler refuse that."""
    checked(COPY, 13, Split("y", "i", (4,), tail), Reorder("y", ("i.1", "i.0")), Vectorize("y", "i.1"))
    checked(COPY, 13, Split("y", "i", (4,), tail), Vectorize("y", "i.0"))
    checked(COPY, 13, Split("y", "i", (4,), tail), Vectorize("y", "i.0"), Unroll("y", "i.1"))
    steps = (Split("y", "i", (2, 4), tail), Reorder("y", ("i.2", "i.0", "i.1")), Vectorize("y", "i.2"))
    checked(COPY, 21, *steps, Unroll("y", "i.1"))


@pytest.mark.parametrize("tail", Tail)
@pytest.mark.parametrize("n", [3, 5, 9, 11])
def test_fused_loops_with_tails(n: int, tail: Tail) -> None:
    """Tiles that lie wholly outside of the loop run no code, not that of the remainder."""
    steps = (
        Split("y", "i", (3, 2, 4), tail),
        Fuse("y", "i.0", "i.1"),
        Unroll("y", "i.2"),
        Vectorize("y", "i.3"),
    )
    checked(COPY, n, *steps)
    steps = (Split("y", "i", (2, 4), tail), Fuse("y", "i.1", "i.2"))
    checked(COPY, n, *steps)


@pytest.mark.parametrize("tail", Tail)
@pytest.mark.parametrize("n", [4, 7, 9])
def test_regions_of_several_offsets(n: int, tail: Tail) -> None:
    steps = (Split("v", "i", (4,), tail), ComputeAt("u", "v", "i.0"), Unroll("v", "i.1"), Vectorize("u", "j"))
    checked(SHIFTED, n, *steps)
    steps = (Split("u", "i", (2,), tail), Unroll("u", "i.1"), Split("v", "i", (4,), tail))
    checked(SHIFTED, n, *steps, ComputeAt("u", "v", "i.0"))


@pytest.mark.parametrize("n", [5, 6, 7, 9, 10])
def test_tiles_outside_as_a_whole_do_not_move_before_what_was_computed_for_them(n: int) -> None:
    text = "def f(x: f32[{n}]):\n    u[i] = x[i] + 1\n    y[i] = u[i] * 2\n    return y\n"
    steps = (
        Split("y", "i", (2, 2), Tail.OVERLAP),
        Unroll("y", "i.0"),
        Unroll("y", "i.1"),
        Unroll("y", "i.2"),
    )
    checked(text, n, *steps[:1], Split("y", "i.2", (1,)), ComputeAt("u", "y", "i.1"), *steps[1:3])
    checked(text, n, *steps, ComputeAt("u", "y", "i.1"))
    deeper = (Split("y", "i", (2, 3), Tail.OVERLAP), Reorder("y", ("i.0", "i.1", "i.2")), Unroll("y", "i.1"))
    checked(text, n, *deeper, Split("y", "i.2", (1, 2), Tail.MASK), ComputeAt("u", "y", "i.2.0"))


@pytest.mark.parametrize("tail", Tail)
@pytest.mark.parametrize("n", [2, 4, 5, 7])
def test_a_tail_reads_only_what_its_own_producers_wrote(n: int, tail: Tail) -> None:
    """Beyond its end a stage may run unguarded only where what is computed inside of it was written."""
    text = (
        "def f(x: f32[{n}]):\n    p = pad(x, ((1, 1),))\n    s[i:{n}] = sum(p[i + r], r=3)\n"
        "    y[i] = s[i] * 2\n    return y\n"
    )
    split = Split("y", "i", (3,), tail)
    checked(text, n, split, ComputeAt("p", "s", "i"), ComputeAt("s", "y", "i.0"))
    checked(text, n, split, ComputeAt("s", "y", "i.0"), ComputeAt("p", "y", "i.0"))
    parts = (RFactor("s", "r", 2), split)
    checked(text, n, *parts, ComputeAt("s.rf", "s", "i"), ComputeAt("s", "y", "i.0"))
    checked(text, n, *parts, ComputeAt("s.rf", "s", "lane"), ComputeAt("s", "y", "i.0"))


@pytest.mark.parametrize("tail", Tail)
def test_packed_operands_and_tails(tail: Tail) -> None:
    steps = (Split("y", "i", (4,), tail), Reorder("y", ("i.0", "k", "i.1")), Unroll("y", "i.1"))
    checked(SUMS, 13, *steps, Pack("y", "x", ("y.i.0", "y.k", "y.i.1"), ROOT))
    checked(SUMS, 13, *steps, Pack("y", "x", ("y.k", "y.i.1"), "y.i.0"))


def test_guards_of_computed_stages_are_tested_once() -> None:
    """The whole tile and its remainder are told apart before the loops, not inside of them."""
    steps = (Split("v", "i", (4,)), ComputeAt("u", "v", "i.0"), Unroll("u", "i"), Vectorize("u", "j"))
    nest = checked("def f(x: f32[9, 8]):\n    u[i, j] = where(i < 4, x[i, j], x[i, j] * 2)\n"
                   "    v[i, j] = u[i, j] + 1\n    return v\n", 9, *steps)  # fmt: skip
    assert sum(isinstance(s, If) for s in walk_statements(nest.body)) <= 3
