"""Elementary functions over the whole range of their argument, specials included, at every width.

Errors are in units in the last place of the exact result, against float64 for f32 and against long double
(or the C library, where there is none) for f64. The bounds are those of codegen/vecmath.py.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from codegen_kernels import Array, compiled, host, old_pc

from tunesmith.ir import Axis, DType, Program, Stage, Tensor
from tunesmith.ir.affine import var
from tunesmith.ir.expr import Binary, BinaryOp, Const, Load, Unary, UnaryOp
from tunesmith.records import Target
from tunesmith.schedule import Schedule, Split, Vectorize, lower

EXACT: dict[UnaryOp, Callable[[Array], Array]] = {
    UnaryOp.NEG: np.negative,
    UnaryOp.ABS: np.abs,
    UnaryOp.SQRT: np.sqrt,
    UnaryOp.RSQRT: lambda x: 1 / np.sqrt(x),
    UnaryOp.EXP: np.exp,
    UnaryOp.LOG: np.log,
    UnaryOp.LOG2: np.log2,
    UnaryOp.LOG10: np.log10,
    UnaryOp.EXP2: np.exp2,
    UnaryOp.SIN: np.sin,
    UnaryOp.COS: np.cos,
    UnaryOp.TANH: np.tanh,
    UnaryOp.SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
    UnaryOp.ERF: lambda x: np.vectorize(math.erf, otypes=[np.float64])(x),
}
BOUNDS = {  # f32, f64
    "neg": (0, 0),
    "abs": (0, 0),
    "sqrt": (0.5, 0.51),
    "rsqrt": (1.5, 1.51),
    "exp": (2.0, 1.2),
    "exp2": (1.0, 1.0),
    "log": (0.9, 0.9),
    "log2": (1.5, 1.5),
    "log10": (1.5, 1.5),
    "sin": (2.0, 1.8),
    "cos": (2.0, 1.8),
    "tanh": (2.5, 2.8),
    "sigmoid": (2.8, 2.4),
    "erf": (5.8, 2.6),
}
F32 = {op: bounds[0] for op, bounds in BOUNDS.items()}
F64 = {op: bounds[1] for op, bounds in BOUNDS.items()}
SPECIALS = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    104.0,
    -104.0,
    88.8,
    -87.5,
    1e30,
    -1e30,
    1e-30,
]
WIDTHS = (1, 2, 3, 4, 5, 8, 16)


def function(op: UnaryOp, dtype: DType, n: int, lanes: int, target: Target) -> Callable[[Array], Array]:
    body = Unary(op, Load("x", (var("i"),)))
    stage = Stage("y", (Axis("i", n),), (), None, body, dtype, dtype)
    program = Program("f", (Tensor("x", (n,), dtype),), (stage,), ("y",))
    steps = (Split("y", "i", (lanes,)), Vectorize("y", "i.1")) if lanes > 1 else ()
    kernel = compiled(lower(program, Schedule(steps)), target)
    return lambda x: kernel(x=x)


def errors(got: Array, exact: Array) -> Array:
    """In units of the last place; NaN, infinities and the step from the largest number to them agree or
    count as infinitely wrong."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        size = np.where(np.isfinite(rounded), np.abs(rounded), 1)
        error = np.abs(got.astype(exact.dtype) - exact) / np.spacing(size).astype(exact.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        both = np.isfinite(got) & np.isfinite(rounded)
        return np.where(both, error, np.where(same, 0, np.inf)).astype(np.float64)


def whole_range(count: int, dtype: type[np.floating]) -> Array:
    """Every exponent of both signs, random mantissas, and specials."""
    rng = np.random.default_rng(0)
    bits = np.uint32 if dtype is np.float32 else np.uint64
    width = 32 if dtype is np.float32 else 64
    step = (1 << width) // count
    start = np.arange(count, dtype=np.uint64) * np.uint64(step)
    values = (start + rng.integers(0, step, count, dtype=np.uint64)).astype(bits).view(dtype)
    values[: len(SPECIALS)] = SPECIALS
    return values


def exact_from(op: UnaryOp, x: Array) -> Array:
    """The argument in the type to compute the exact result in."""
    wider = np.longdouble if x.dtype == np.float64 and op is not UnaryOp.ERF else np.float64
    with np.errstate(all="ignore"):
        return x.astype(wider)


def worst(op: UnaryOp, got: Array, x: Array) -> float:
    with np.errstate(all="ignore"):
        return float(errors(got, EXACT[op](x)).max())


@pytest.mark.parametrize("op", UnaryOp)
def test_f32_over_its_whole_range(op: UnaryOp) -> None:
    x = whole_range(1 << 20 if op is not UnaryOp.ERF else 1 << 17, np.float32)
    got = function(op, DType.F32, len(x), 16, host())(x)
    assert worst(op, got, exact_from(op, x)) <= F32[op]


@pytest.mark.parametrize("op", UnaryOp)
def test_f32_where_results_vary(op: UnaryOp) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-5, 5, 1 << 16), rng.uniform(-110, 95, 1 << 16), 1 + rng.uniform(-0.5, 1, 1 << 16)]
    ).astype(np.float32)
    got = function(op, DType.F32, len(x), 16, host())(x)
    assert worst(op, got, exact_from(op, x)) <= F32[op]


@pytest.mark.parametrize("op", UnaryOp)
def test_f64(op: UnaryOp) -> None:
    rng = np.random.default_rng(2)
    n = 1 << 15
    x = np.concatenate(
        [
            whole_range(n, np.float64),
            rng.uniform(-5, 5, n),
            rng.uniform(-760, 715, n),
            1 + rng.uniform(-0.5, 1, n),
        ]
    )
    got = function(op, DType.F64, len(x), 8, host())(x)
    assert worst(op, got, exact_from(op, x)) <= F64[op]


@pytest.mark.parametrize("op", [o for o in UnaryOp if F32[o] > 0.5])
@pytest.mark.parametrize("lanes", WIDTHS)
def test_every_width_computes_the_same(op: UnaryOp, lanes: int) -> None:
    x = np.concatenate([whole_range(1009, np.float32), np.linspace(-9, 9, 1009, dtype=np.float32)])
    got = function(op, DType.F32, len(x), lanes, host())(x)
    assert worst(op, got, exact_from(op, x)) <= F32[op]
    whole = function(op, DType.F32, len(x), 16, host())(x)
    np.testing.assert_array_equal(got, whole)


@pytest.mark.parametrize("op", [o for o in UnaryOp if F32[o] > 0.5])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_without_fused_multiply_add_a_little_is_lost(op: UnaryOp, dtype: DType) -> None:
    if not host().arch.startswith("x86"):
        pytest.skip("the other target is an older x86")
    x = np.concatenate([whole_range(10007, np.float32), np.linspace(-9, 9, 10007, dtype=np.float32)])
    with np.errstate(all="ignore"):
        x = x.astype(dtype.numpy)
    got = function(op, dtype, len(x), 4, old_pc())(x)
    assert worst(op, got, exact_from(op, x)) <= (F32 if dtype is DType.F32 else F64)[op] + 2


@pytest.mark.parametrize("op", [UnaryOp.TANH, UnaryOp.ERF])
def test_small_arguments_keep_their_relative_accuracy(op: UnaryOp) -> None:
    x = np.geomspace(1e-44, 1e-2, 4001).astype(np.float32)
    x = np.concatenate([x, -x])
    got = function(op, DType.F32, len(x), 16, host())(x)
    assert worst(op, got, exact_from(op, x)) <= F32[op]


@pytest.mark.parametrize("op", [UnaryOp.SIN, UnaryOp.COS])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_angles_closest_to_the_zeros(op: UnaryOp, dtype: DType) -> None:
    """Multiples of pi/2 and their neighbours, where all but the last digits of the argument cancel; up to
    where the C library takes over and a little further."""
    n = np.arange(1, 5000 if dtype is DType.F32 else 40000)
    x = (n * (np.longdouble(np.pi) / 2)).astype(dtype.numpy)
    x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)]).astype(dtype.numpy)
    for target in (host(), old_pc()) if host().arch.startswith("x86") else (host(),):
        got = function(op, dtype, len(x), 8, target)(x)
        assert worst(op, got, exact_from(op, x)) <= (F32 if dtype is DType.F32 else F64)[op]


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0])
def test_small_whole_exponents_are_multiplied_out(exponent: float) -> None:
    x = whole_range(10007, np.float32)
    stage = Stage(
        "y",
        (Axis("i", len(x)),),
        (),
        None,
        Binary(BinaryOp.POW, Load("x", (var("i"),)), Const(exponent)),
        DType.F32,
        DType.F32,
    )
    program = Program("f", (Tensor("x", (len(x),), DType.F32),), (stage,), ("y",))
    got = compiled(lower(program, Schedule((Split("y", "i", (8,)), Vectorize("y", "i.1")))), host())(x=x)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), exponent)
    assert errors(got, exact).max() <= 2.5


POWER_SPECIALS = (
    0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e30,
    -1e30, 16777216.0, 8388609.0, -8388609.0, 4194303.0, -7.0, 1 / 3, 1e-45, 127.0, 128.0, -149.0, -126.5,
)  # fmt: skip


def power(dtype: DType, n: int, lanes: int) -> Callable[[Array, Array], Array]:
    index = (var("i"),)
    body = Binary(BinaryOp.POW, Load("a", index), Load("b", index))
    stage = Stage("y", (Axis("i", n),), (), None, body, dtype, dtype)
    program = Program("f", (Tensor("a", (n,), dtype), Tensor("b", (n,), dtype)), (stage,), ("y",))
    kernel = compiled(lower(program, Schedule((Split("y", "i", (lanes,)), Vectorize("y", "i.1")))), host())
    return lambda a, b: kernel(a=a, b=b)


@pytest.mark.parametrize(("dtype", "bound"), [(DType.F32, 1.0), (DType.F64, 1.0)])
def test_powers_of_everything(dtype: DType, bound: float) -> None:
    rng, n = np.random.default_rng(3), 1 << 17
    a, b = (v.ravel() for v in np.meshgrid(POWER_SPECIALS, POWER_SPECIALS))
    bases = (np.exp(rng.uniform(-80, 80, n)), 1 + rng.uniform(-1e-3, 1e-3, n), -np.exp(rng.uniform(-8, 8, n)))
    exponents = (rng.uniform(-3, 3, n), rng.uniform(-9e4, 9e4, n), np.rint(rng.uniform(-20, 20, n)))
    x = np.concatenate([a, *bases]).astype(dtype.numpy)
    y = np.concatenate([b, *exponents]).astype(dtype.numpy)
    wide = np.float64 if dtype is DType.F32 else np.longdouble
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
    assert errors(power(dtype, len(x), 8)(x, y), exact).max() <= bound


def test_a_lane_does_not_depend_on_the_others() -> None:
    """The slow path of one lane leaves the results of its neighbours alone."""
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    for op in (UnaryOp.SIN, UnaryOp.COS, UnaryOp.EXP, UnaryOp.LOG, UnaryOp.EXP2):
        f = function(op, DType.F32, len(x), 8, host())
        mixed = x.copy()
        mixed[::8] = 1e30
        np.testing.assert_array_equal(f(mixed)[1:8], f(x)[1:8])
