"""Printed loop nests of typical schedules. A change of lowering shows here what it does."""

from collections.abc import Callable

import numpy as np

from tunesmith.ir import evaluate, parse, run_nest
from tunesmith.schedule import (
    PREPARE,
    CacheWrite,
    ComputeAt,
    Fuse,
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
    Tail,
    Unroll,
    Vectorize,
    lower,
)

Golden = Callable[[str, str], None]

MATMUL = """
def matmul(a: f32[50, 64], b: const[f32[64, 48]]):
    c[i, j] = sum(a[i, k] * b[k, j], k)
    return c
"""
CONV = """
def conv(x: f32[9, 8], w: const[f32[3, 8, 16]]):
    p = pad(x, ((1, 1), (0, 0)))
    y[h, o] = sum(p[h + r, c] * w[r, c, o], (r, c))
    return relu(y)
"""
SOFTMAX = """
def softmax(x: f32[6, 37]):
    m[i] = max(x[i, k], k)
    e[i, j] = exp(x[i, j] - m[i])
    s[i] = sum(e[i, k], k)
    y[i, j] = e[i, j] / s[i]
    return y
"""


def printed(text: str, *steps: Step) -> str:
    """The nest's text, after a check that it computes the program: a golden file must not hold a fault."""
    program = parse(text)
    nest = lower(program, Schedule(steps))
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in program.inputs}
    results = run_nest(nest, inputs)
    for name, expected in evaluate(program, inputs).items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-5)
    return str(nest)


def test_tiled_matmul_with_packing(golden: Golden) -> None:
    """Whole tiles and the remainder of rows are two versions of the register tile."""
    text = printed(
        MATMUL,
        CacheWrite("c"),
        Split("c", "i", (2, 4)),
        Split("c", "j", (1, 2, 8)),
        Reorder("c", ("i.0", "j.0", "j.1", "i.1", "i.2", "j.2", "j.3")),
        Parallel("c", "i.0"),
        ComputeAt("c.acc", "c", "i.1"),
        Unroll("c", "i.2"),
        Unroll("c", "j.2"),
        Vectorize("c", "j.3"),
        Split("c.acc", "k", (4,)),
        Split("c.acc", "j", (8,)),
        Reorder("c.acc", ("k.0", "k.1", "i", "j.0", "j.1")),
        Unroll("c.acc", "k.1"),
        Unroll("c.acc", "i"),
        Unroll("c.acc", "j.0"),
        Vectorize("c.acc", "j.1"),
        Pack("c.acc", "b", ("c.j.0", "c.j.1", "c.acc.k.0", "c.acc.k.1", "c.acc.j.0", "c.acc.j.1"), PREPARE),
    )
    golden("matmul_tiled_packed", text)


def test_convolution_with_a_slice_of_its_padding(golden: Golden) -> None:
    text = printed(
        CONV,
        Split("out", "i0", (4,)),
        ComputeAt("y", "out", "i0.0"),
        ComputeAt("p", "out", "i0.0"),
        Reorder("y", ("r", "c", "h", "o")),
        Unroll("y", "h"),
        Vectorize("y", "o"),
        Vectorize("p", "i1"),
        Vectorize("out", "i1"),
    )
    golden("conv_sliced_pad", text)


def test_softmax_row_by_row(golden: Golden) -> None:
    """Both reductions have partial results in lanes; the row stays in a local buffer."""
    text = printed(
        SOFTMAX,
        RFactor("m", "k", 8),
        RFactor("s", "k", 8),
        Split("y", "j", (8,), Tail.OVERLAP),
        Vectorize("y", "j.1"),
        Parallel("y", "i"),
        *(ComputeAt(stage, "y", "i") for stage in ("s", "s.rf", "e", "m", "m.rf")),
        *(Reorder(stage, ("i", "k", "lane")) for stage in ("s.rf", "m.rf")),
        *(Vectorize(stage, "lane") for stage in ("s.rf", "s", "m.rf", "m")),
        Split("e", "j", (8,), Tail.MASK),
        Vectorize("e", "j.1"),
    )
    golden("softmax_rows", text)


def test_softmax_with_its_sum_in_the_loop_of_its_exponentials(golden: Golden) -> None:
    """What a tile stores is added while it is still in registers; what is left of a row, as well."""
    text = printed(
        SOFTMAX,
        RFactor("m", "k", 8),
        RFactor("s", "k", 16),
        Split("y", "j", (8,), Tail.OVERLAP),
        Vectorize("y", "j.1"),
        Split("y", "i", (2,)),
        Unroll("y", "i.1"),
        *(ComputeAt(stage, "y", "i.0") for stage in ("s", "s.rf", "e", "m", "m.rf")),
        *(Reorder(stage, ("k", "i", "lane")) for stage in ("s.rf", "m.rf")),
        *(Vectorize(stage, "lane") for stage in ("s.rf", "s", "m.rf", "m")),
        Split("e", "j", (16,)),
        Split("e", "j.1", (8,)),
        Reorder("e", ("j.0", "i", "j.1.0", "j.1.1")),
        *(Unroll(*x) for x in (("s.rf", "i"), ("m.rf", "i"), ("e", "i"), ("e", "j.1.0"))),
        Vectorize("e", "j.1.1"),
        Join("s.rf", "e"),
    )
    golden("softmax_joined", text)


def test_overlapped_tail(golden: Golden) -> None:
    text = printed(
        "def f(x: f32[61]):\n    return x * 2\n",
        Split("out", "i0", (3, 2, 4), Tail.OVERLAP),
        Unroll("out", "i0.2"),
        Vectorize("out", "i0.3"),
    )
    golden("overlapped_tail", text)


def test_factored_reduction_with_a_tail(golden: Golden) -> None:
    text = printed(
        "def f(x: f32[3, 19]):\n    y[i] = sum(x[i, k] * x[i, k], k)\n    return y\n",
        RFactor("y", "k", 4, Part.INNER),
        ComputeAt("y.rf", "y", "i"),
        Reorder("y.rf", ("i", "k", "lane")),
        Vectorize("y.rf", "lane"),
        Vectorize("y", "lane"),
    )
    golden("rfactor_tail", text)


def test_inlining_and_both_versions_of_a_guarded_copy(golden: Golden) -> None:
    text = printed(
        "def f(x: f32[4, 8]):\n    y = x * 2\n    p = pad(y, ((1, 1), (0, 0)))\n    return p\n",
        Inline("y"),
        Vectorize("p", "i1"),
    )
    golden("inlined_pad", text)


CONV_2D = """
def conv(x: f32[6, 9, 8], w: const[f32[3, 3, 8, 16]]):
    p = pad(x, ((1, 1), (1, 1), (0, 0)))
    y[u, h, o] = sum(p[u + t, h + r, c] * w[t, r, c, o], (t, r, c))
    return y
"""


def test_padding_left_out_with_code_for_the_edges(golden: Golden) -> None:
    """The window starts and ends where there is something; one row of four is at an edge at a time."""
    text = printed(
        CONV_2D,
        Inline("p"),
        Split("y", "h", (4,)),
        Split("y", "o", (8,)),
        Reorder("y", ("u", "h.0", "o.0", "t", "r", "c", "h.1", "o.1")),
        Unroll("y", "h.1"),
        Vectorize("y", "o.1"),
    )
    golden("conv_without_padding", text)


def test_fused_loops_of_one_trip_are_no_variables() -> None:
    """An accumulator indexed by one would be memory and no register."""
    tiles = (Split("c", "i", (50,)), Split("c", "j", (8,)), Reorder("c", ("i.0", "j.0", "i.1", "j.1")))
    text = printed(
        MATMUL, CacheWrite("c"), *tiles, Fuse("c", "i.0", "j.0"), ComputeAt("c.acc", "c", "i.0*j.0")
    )
    assert "c[c.i.1, 8*c.j.0 + c.j.1] = c.acc[c.i.1, c.j.1]" in text
    whole = (Split("c", "i", (50,)), Split("c", "j", (48,)), Reorder("c", ("i.0", "j.0", "i.1", "j.1")))
    text = printed(MATMUL, *whole, Fuse("c", "i.0", "j.0"), Parallel("c", "i.0*j.0"))
    assert "parallel" not in text, "one trip needs no threads"
