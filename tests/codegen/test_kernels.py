"""Machine code for nests with something special about them."""

import ctypes
import mmap
import sys

import numpy as np
import pytest
from codegen_kernels import call, compiled, host, nest_of, random_inputs

from tunesmith.codegen import build, build_nest, ir_text
from tunesmith.codegen.emit import CodeTooLarge, emit_module
from tunesmith.ir import DType, LoopNest, evaluate, parse
from tunesmith.ir.affine import Affine, constant, var
from tunesmith.ir.expr import Const, Load
from tunesmith.ir.loopnest import Buffer, For, If, LoopKind, Role, Store
from tunesmith.measure.kernel import Kernel
from tunesmith.schedule import (
    ComputeAt,
    IllegalStep,
    Parallel,
    Part,
    Reorder,
    RFactor,
    Schedule,
    Split,
    Step,
    Stream,
    Tail,
    Unroll,
    Vectorize,
)

_MAP_NORESERVE = 0x4000

ROWS = """
def rows(x: f32[37, 53], g: f32[53]):
    m[i] = max(x[i, k], k)
    s[i] = sum(exp(x[i, k] - m[i]), k)
    y[i, j] = exp(x[i, j] - m[i]) / s[i] * g[j]
    return y, sum(x[i, k] * x[i, k], (i, k))
"""
SERIAL: tuple[Step, ...] = (
    Split("y", "j", (16,), Tail.MASK),
    Vectorize("y", "j.1"),
    RFactor("s", "k", 8),
    Reorder("s.rf", ("i", "k", "lane")),
    Vectorize("s.rf", "lane"),
)


# -- threads ----------------------------------------------------------------------------------------------


def test_two_threads_compute_what_one_does() -> None:
    """Parallel loops, serial stages between them, and buffers that both write and read."""
    program = parse(ROWS)
    inputs = random_inputs(program)
    steps = (*SERIAL, Parallel("m", "i"), Parallel("s.rf", "i"), Parallel("y", "i"))
    one = call(build(program, Schedule(SERIAL), host(1)), inputs)
    for threads in (1, 2):
        many = call(build(program, Schedule(steps), host(threads)), inputs)
        for name, expected in one.items():
            np.testing.assert_array_equal(many[name], expected)


def test_more_threads_than_iterations() -> None:
    program, nest = nest_of("def f(x: f32[1, 9]):\n    y = x * 2\n    return y\n", Parallel("y", "i0"))
    result = compiled(nest, host(2))(**random_inputs(program))
    np.testing.assert_array_equal(result, 2 * random_inputs(program)["x"])
    program, nest = nest_of("def f(x: f32[3]):\n    y = x * 2\n    return y\n", Parallel("y", "i0"))
    result = compiled(nest, host(2))(**random_inputs(program))
    np.testing.assert_array_equal(result, 2 * random_inputs(program)["x"])


@pytest.mark.parametrize("threads", [1, 2])
def test_only_parallel_code_needs_openmp(threads: int) -> None:
    program = parse(ROWS)
    serial = build(program, Schedule(SERIAL), host(threads))
    parallel = build(program, Schedule((*SERIAL, Parallel("y", "i"))), host(threads))
    assert not serial.needs_openmp and b"GOMP" not in serial.object_code
    assert b"omp_get" not in serial.object_code
    assert parallel.needs_openmp == (threads > 1) == (b"GOMP_parallel" in parallel.object_code)


def test_code_between_parallel_loops_has_no_pointers_of_its_own() -> None:
    """Two names for one buffer in a function that says they do not overlap would let LLVM move loads across
    the parallel loop."""
    _, nest = nest_of(ROWS, Parallel("m", "i"), Parallel("y", "i"))
    text = ir_text(nest, host(2))
    entry = text[text.index("define void @ts_run(") :]
    entry = entry[: entry.index("\n}")]
    assert entry.count("@GOMP_parallel") == 2 and "noalias" not in entry and "getelementptr" not in entry


# -- numbers ----------------------------------------------------------------------------------------------


def test_constants_beyond_f32_are_infinite() -> None:
    program, nest = nest_of("def f(x: f32[3]):\n    return minimum(x, 1e300) + maximum(x, -1e300) - 1e-300\n")
    inputs = random_inputs(program)
    np.testing.assert_allclose(compiled(nest)(**inputs), 2 * inputs["x"])


def test_nan_and_infinities_go_through_reductions() -> None:
    """``max`` and ``min`` keep NaN at any place and any width."""
    for how in ("max", "min"):
        for steps in ((), (Vectorize("y", "k"),), (Split("y", "k", (4,)), Vectorize("y", "k.1"))):
            program, nest = nest_of(
                f"def f(x: f32[4, 12]):\n    y[i] = {how}(x[i, k], k)\n    return y\n", *steps
            )
            x = random_inputs(program)["x"]
            x[0, 5], x[1, 0], x[2, 11], x[3, 3] = np.nan, np.inf, -np.inf, np.nan
            x[3, 4] = np.inf
            np.testing.assert_array_equal(compiled(nest)(x=x), getattr(np, how)(x, axis=1))


def lane_condition(form: Affine) -> LoopNest:
    """y[i, v] = 1 where form(i, v) >= 0, else 0."""
    y = Buffer("y", (3, 8), DType.F32, Role.OUTPUT)
    index = (var("i"), var("v"))
    stores = (Store("y", index, Const(0.0)), If((form,), (Store("y", index, Const(1.0)),)))
    return LoopNest(
        "f", (y,), (), (For("i", 3, (), LoopKind.SERIAL, (For("v", 8, (), LoopKind.VECTOR, stores),)),)
    )


@pytest.mark.parametrize("step", [1, -1, 3, 1 << 27, -(1 << 28), 1 << 31, -(1 << 40), 1 << 58])
@pytest.mark.parametrize("row", [0, 1, -1, 1 << 31, -(1 << 33), 1 << 60])
def test_conditions_on_lanes_are_exact_at_any_distance(step: int, row: int) -> None:
    form = Affine.of({"v": step, "i": row}, -abs(row) // 2 + 3)
    result = compiled(lane_condition(form))()
    expected = [[float(form.evaluate({"i": i, "v": v}) >= 0) for v in range(8)] for i in range(3)]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.skipif(sys.platform != "linux", reason="needs memory that is not reserved")
def test_offsets_beyond_32_bits() -> None:
    """A tensor of 40 GiB that is never touched but for a few pages."""
    n, rows = 1 << 31, 5
    program = parse(f"def f(x: f32[{rows}, {n}]):\n    z[i] = sum(x[i, {n - 4} + k], k=4)\n    return z\n")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    try:
        memory = mmap.mmap(-1, rows * n * 4, flags)
    except OSError:
        pytest.skip("the system does not give out memory that it does not have")
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    expected = np.zeros(rows, np.float32)
    for i in range(rows):
        last = np.frombuffer(memory, np.float32, 4, ((i + 1) * n - 4) * 4)
        last[:] = np.arange(4) + 10 * i
        expected[i] = last.sum()
    result = np.full(rows, np.nan, np.float32)
    kernel = Kernel(build(program, Schedule((Vectorize("z", "k"),)), host()))
    kernel.bind([address, result.ctypes.data]).run()
    np.testing.assert_array_equal(result, expected)


# -- shapes of code ---------------------------------------------------------------------------------------


def test_scalars_in_and_out() -> None:
    program, nest = nest_of("def f(x: f64[7], s: f64):\n    y = sum(x[i] * s, i)\n    return y\n")
    inputs = random_inputs(program)
    np.testing.assert_allclose(compiled(nest)(**inputs), inputs["x"].sum() * inputs["s"])


@pytest.mark.parametrize("lanes", [3, 4, 7, 16])
@pytest.mark.parametrize("n", [64, 61])
def test_streamed_stores_of_any_width(lanes: int, n: int) -> None:
    steps = (Split("y", "j", (lanes,), Tail.OVERLAP), Vectorize("y", "j.1"), Stream("y"))
    program, nest = nest_of(f"def f(x: f32[5, {n}]):\n    y[i, j] = x[i, j] + 1\n    return y\n", *steps)
    inputs = random_inputs(program)
    np.testing.assert_array_equal(compiled(nest)(**inputs), inputs["x"] + 1)


def test_streamed_code_comes_twice_and_no_more() -> None:
    steps = (Unroll("y", "i"), Unroll("y", "j"), Vectorize("y", "k"), Stream("y"))
    _, nest = nest_of("def f(x: f32[4, 4, 16]):\n    y[i, j, k] = x[i, j, k] + 1\n    return y\n", *steps)
    assert ir_text(nest, host()).count("fadd") == 2 * 16


@pytest.mark.parametrize("lanes", [4, 8])
def test_masked_vectors_stay_inside_their_local_buffers(lanes: int) -> None:
    """Lanes that are off reach past the end of a buffer of 13 elements; its neighbour must not see it."""
    text = (
        "def f(x: f32[6, 13]):\n    a[i, j] = exp(x[i, j])\n    b[i, j] = x[i, j] * 2\n"
        "    y[i, j] = a[i, j] + b[i, 12 - j]\n    return y\n"
    )
    for tail in Tail:
        steps: list[Step] = []
        for stage in "aby":
            factors = (3, lanes) if stage == "a" else (lanes,)
            steps += [Split(stage, "j", factors, tail), Vectorize(stage, f"j.{len(factors)}")]
        steps += [Unroll("a", "j.1"), ComputeAt("a", "y", "i"), ComputeAt("b", "y", "i")]
        program, nest = nest_of(text, *steps)
        inputs = random_inputs(program)
        expected = evaluate(program, inputs)["y"]
        np.testing.assert_allclose(compiled(nest)(**inputs), expected, rtol=1e-5, atol=1e-6)
        room = min(places(ir_text(nest, host())))
        assert room >= (16 if tail is Tail.MASK else 13)


def places(ir: str) -> list[int]:
    """Elements of everything on the stack."""
    return [int(line.split("[")[1].split(" ")[0]) for line in ir.split("\n") if "alloca [" in line]


@pytest.mark.parametrize("tail", Tail)
@pytest.mark.parametrize("n", [13, 16])
def test_lanes_around_other_loops_of_their_axis(tail: Tail, n: int) -> None:
    """What is decided once for all lanes must not depend on the lane: no tile moves, no code is split."""
    text = f"def f(x: f32[{n}]):\n    y[i] = x[i] * 2\n    return y\n"
    for steps in (
        (Split("y", "i", (4,), tail), Vectorize("y", "i.0"), Unroll("y", "i.1")),
        (Split("y", "i", (4,), tail), Vectorize("y", "i.0")),
        (Split("y", "i", (2, 4), tail), Vectorize("y", "i.1"), Unroll("y", "i.2")),
        (
            Split("y", "i", (4,), tail),
            Reorder("y", ("i.1", "i.0")),
            Vectorize("y", "i.1"),
            Unroll("y", "i.0"),
        ),
    ):
        program, nest = nest_of(text, *steps)
        inputs = random_inputs(program)
        np.testing.assert_array_equal(compiled(nest)(**inputs), inputs["x"] * 2)


def test_the_stack_is_bounded_however_often_a_buffer_comes_up() -> None:
    """Small buffers have a place each, until there are many of them."""
    steps = (ComputeAt("u", "y", "i"), Unroll("y", "i"))
    text = "def f(x: f32[200, 1024]):\n    u[i, j] = x[i, j] * 2\n    y[i] = sum(u[i, j], j)\n    return y\n"
    program, nest = nest_of(text, *steps)
    assert sum(places(ir_text(nest, host()))) * 4 <= (1 << 17) + (1 << 13)
    inputs = random_inputs(program)
    np.testing.assert_allclose(compiled(nest)(**inputs), evaluate(program, inputs)["y"], rtol=1e-4, atol=1e-4)


def test_code_that_is_too_large_is_not_given_to_llvm() -> None:
    y = Buffer("y", (1 << 20,), DType.F32, Role.OUTPUT)
    store = Store("y", (var("i"),), Const(0.0))
    nest = LoopNest("f", (y,), (), (For("i", 1 << 20, (), LoopKind.UNROLL, (store,)),))
    with pytest.raises(IllegalStep, match="instructions in one function"):
        build_nest(nest, host())
    with pytest.raises(CodeTooLarge):
        emit_module(nest, 1, limit=100)


def test_what_was_loaded_is_loaded_again_after_a_store() -> None:
    """Stores in nested blocks and to other elements make what was read before unknown."""
    x, y = Buffer("x", (4,), DType.F32, Role.INPUT), Buffer("y", (4,), DType.F32, Role.OUTPUT)
    one, zero = (constant(1),), (constant(0),)
    inner = For("i", 3, (), LoopKind.SERIAL, (Store("y", one, Load("x", (var("i"),))),))
    body = (
        For("z", 4, (), LoopKind.SERIAL, (Store("y", (var("z"),), Const(0.0)),)),
        Store("y", one, Const(5.0)),
        Store("y", zero, Load("y", one)),
        inner,
        Store("y", (constant(2),), Load("y", one)),
        Store("y", one, Const(7.0)),
        Store("y", (constant(3),), Load("y", one)),
    )
    result = compiled(LoopNest("f", (x, y), (), body))(x=np.arange(1, 5, dtype=np.float32))
    np.testing.assert_array_equal(result, [5, 7, 3, 7])


def test_partial_results_of_either_part() -> None:
    for part in Part:
        steps = (RFactor("y", "k", 4, part), Reorder("y.rf", ("i", "k", "lane")), Vectorize("y.rf", "lane"))
        text = "def f(x: f32[3, 19]):\n    y[i] = sum(x[i, k], k)\n    return y\n"
        program, nest = nest_of(text, *steps, Vectorize("y", "lane"))
        inputs = random_inputs(program)
        np.testing.assert_allclose(compiled(nest)(**inputs), inputs["x"].sum(axis=1), rtol=1e-5, atol=1e-5)


GUARDED = {
    "an element that no lane may read": "where(i + j < 5, w[i], 0)",
    "lanes that meet in one element": "where(2*i - j >= 0 and j - 2*i >= 0, d[2*i - j, j - 2*i], 0.5)",
    "a shifted row": "where(i >= 3 and i + j < 9, x[i - 3, j], x[i, j])",
    "a reversed row": "where(i + j >= 4 and j < 7, x[i, 6 - j], -1)",
    "every second element": "where(2*j + i < 8, x[i, 2*j + i], 0)",
}


@pytest.mark.parametrize("body", GUARDED.values(), ids=GUARDED)
@pytest.mark.parametrize("lanes", [4, 8])
def test_guarded_loads_touch_nothing_where_the_guard_fails(body: str, lanes: int) -> None:
    steps = (Split("y", "j", (lanes,), Tail.MASK), Vectorize("y", "j.1"))
    shapes = {"x": "f32[9, 8]", "w": "f32[5]", "d": "f32[1, 1]"}
    inputs = ", ".join(f"{n}: {shape}" for n, shape in shapes.items() if f"{n}[" in body)
    program, nest = nest_of(f"def f({inputs}):\n    y[i:9, j:8] = {body}\n    return y\n", *steps)
    arrays = random_inputs(program)
    np.testing.assert_array_equal(compiled(nest)(**arrays), evaluate(program, arrays, None)["y"])


@pytest.mark.parametrize("start", [-3, 0, 2, 5, 9])
def test_loops_start_where_they_are_told_to(start: int) -> None:
    """From the larger of 0 and what the loop outside of it says; not at all from the end on."""
    x, y = Buffer("x", (10,), DType.F32, Role.INPUT), Buffer("y", (10,), DType.F32, Role.OUTPUT)
    inner = Store("y", (var("i"),), Load("x", (var("i"),)))
    body = (
        For("i", 10, (), LoopKind.SERIAL, (Store("y", (var("i"),), Const(0.0)),)),
        For("z", 2, (), LoopKind.SERIAL, (For("i", 5, (), LoopKind.SERIAL, (inner,), (var("z") + start,)),)),
    )
    result = compiled(LoopNest("f", (x, y), (), body))(x=np.arange(1, 11, dtype=np.float32))
    np.testing.assert_array_equal(result, [i + 1 if max(start, 0) <= i < 5 else 0 for i in range(10)])


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
@pytest.mark.parametrize("reducer", ["max", "min", "fmax", "fmin"])
def test_extremes_with_and_without_nan(reducer: str, lanes: int) -> None:
    """Across lanes and one after another, with NaN anywhere: NumPy's answer."""
    text = f"def f(x: f32[20, 24]):\n  y[i] = {reducer}(x[i, k], k)\n  return y\n"
    x = np.random.default_rng(0).standard_normal((20, 24)).astype(np.float32)
    for row in range(12):
        x[row, row * 2] = np.nan
    x[12:16, 3], x[13, 4], x[19] = np.inf, -np.inf, np.nan
    steps = (Split("y", "k", (lanes,)), Vectorize("y", "k.1")) if lanes > 1 else ()
    found = compiled(nest_of(text, *steps)[1])(x=x)
    identity = np.float32(-np.inf if "max" in reducer else np.inf)
    ufunc = {"max": np.maximum, "min": np.minimum, "fmax": np.fmax, "fmin": np.fmin}[reducer]
    np.testing.assert_array_equal(found, ufunc(ufunc.reduce(x, axis=1), identity))
