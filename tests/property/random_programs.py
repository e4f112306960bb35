"""Small programs of every shape that schedules have to cope with, and inputs for them.

Half are texts of the usual operators with odd sizes, half are random expressions over random indices. What
they compute stays finite and moderate, and comparisons look at inputs only, so that rounding flips none.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tunesmith.ir import Axis, DType, Program, Stage, Tensor, parse, verify_program
from tunesmith.ir.affine import Affine, interval
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Reducer,
    Select,
    Unary,
    UnaryOp,
    Within,
    loads,
)

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19)
SHORT = (1, 2, 3, 4, 5, 6)

sizes = st.sampled_from(SIZES)
short = st.sampled_from(SHORT)
dtypes = st.sampled_from(["f32", "f32", "f64"])
consts = st.sampled_from(["const[{}]", "{}"])


def inputs_of(program: Program, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Halves in [-1, 1]: sums of a few of their products are exact."""
    rng = np.random.default_rng(seed)
    return {
        t.name: (rng.integers(-2, 3, t.shape) / 2).astype(t.dtype.numpy).reshape(t.shape)
        for t in program.inputs
    }


def programs() -> st.SearchStrategy[Program]:
    texts = st.one_of(
        _matmul(), _conv1d(), _conv2d(), _pool(), _rows(), _stencil(), _elementwise(), _reductions(), _moves()
    )
    return st.one_of(texts.map(parse), random_programs())


def short_programs() -> st.SearchStrategy[Program]:
    """Some that are quick to interpret."""
    return st.one_of(_conv1d(), _pool(), _stencil(), _elementwise(), _moves()).map(parse)


# -- operators --------------------------------------------------------------------------------------------


def _text(inputs: Mapping[str, str], body: str) -> str:
    """A function of those inputs that its body reads."""
    used = {n: t for n, t in inputs.items() if re.search(rf"\b{n}\b(?! *\[.*\] *=)", body)}
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"def random({', '.join(f'{n}: {t}' for n, t in used.items())}):\n{lines}\n"


@st.composite
def _matmul(draw: st.DrawFn) -> str:
    m, n, k, t = draw(sizes), draw(sizes), draw(sizes), draw(dtypes)
    a, a_index = draw(st.sampled_from([(f"{m}, {k}", "i, k"), (f"{k}, {m}", "k, i")]))
    b, b_index = draw(st.sampled_from([(f"{k}, {n}", "k, j"), (f"{n}, {k}", "j, k")]))
    batch = draw(st.sampled_from(["", "", "b"]))
    size, index = (f"{draw(short)}, ", "b, ") if batch else ("", "")
    weights = draw(consts).format(f"{t}[{size}{b}]")
    end = draw(
        st.sampled_from(
            [
                f"return y[{index}i, j]",
                f"return relu(y[{index}i, j] + c[j])",
                f"return tanh(y[{index}i, j]) * c[j], y",
                f"z[{index}i, j] = y[{index}i, j] - c[j]\nreturn z, sum(z[{index}i, j], j)",
            ]
        )
    )
    inputs = {"x": f"{t}[{size}{a}]", "w": weights, "c": draw(consts).format(f"{t}[{n}]")}
    return _text(inputs, f"y[{index}i, j] = sum(x[{index}{a_index}] * w[{index}{b_index}], k)\n{end}")


@st.composite
def _conv1d(draw: st.DrawFn) -> str:
    k, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    left, right = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    reach = (k - 1) * dilation + 1
    n = max(draw(sizes), reach - left - right, 1)
    ci, co, t = draw(short), draw(sizes), draw(dtypes)
    weights = draw(consts).format(f"{t}[{k}, {ci}, {co}]")
    last = draw(st.sampled_from(["y", "relu(y + 0.5)", "y * y"]))
    return _text(
        {"x": f"{t}[{n}, {ci}]", "w": weights},
        f"p = pad(x, (({left}, {right}), (0, 0)))\n"
        f"y[h, o] = sum(p[{stride}*h + {dilation}*r, c] * w[r, c, o], (r, c))\nreturn {last}",
    )


@st.composite
def _conv2d(draw: st.DrawFn) -> str:
    k, stride, edge = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, 1))
    h = max(draw(st.sampled_from([3, 4, 5, 7])), k - 2 * edge)
    ci, co, t = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 3, 4, 7, 8])), draw(dtypes)
    weights = draw(consts).format(f"{t}[{k}, {k}, {ci}, {co}]")
    if draw(st.booleans()):
        pad, x, out = f"((0, 0), ({edge}, {edge}), ({edge}, {edge}))", f"{ci}, {h}, {h + 1}", "o, h, v"
        read = f"p[c, {stride}*h + r, {stride}*v + s]"
    else:
        pad, x, out = f"(({edge}, {edge}), ({edge}, {edge}), (0, 0))", f"{h}, {h + 1}, {ci}", "h, v, o"
        read = f"p[{stride}*h + r, {stride}*v + s, c]"
    return _text(
        {"x": f"{t}[{x}]", "w": weights},
        f"p = pad(x, {pad})\ny[{out}] = sum({read} * w[r, s, c, o], (r, s, c))\nreturn relu(y)",
    )


@st.composite
def _pool(draw: st.DrawFn) -> str:
    k, stride, edge = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 1))
    h, c, t = max(draw(sizes), k), draw(sizes), draw(dtypes)
    how, value = draw(st.sampled_from([("max", "-inf"), ("min", "inf"), ("sum", "0"), ("max", "1")]))
    return _text(
        {"x": f"{t}[{h}, {c}]"},
        f"p = pad(x, (({edge}, {edge}), (0, 0)), value={value})\n"
        f"y[h, c] = {how}(p[{stride}*h + r, c], r={k})\nreturn y",
    )


@st.composite
def _rows(draw: st.DrawFn) -> str:
    m, n, t = draw(sizes), draw(st.sampled_from([*SIZES, 19, 33])), draw(dtypes)
    bodies = [
        "m[i] = max(x[i, k], k)\ne[i, j] = exp(x[i, j] - m[i])\n"
        "s[i] = sum(e[i, k], k)\nd[i, j] = e[i, j] / s[i]\nreturn d",
        "return softmax(x)",
        "return softmax(x, axis=0)",
        "return layer_norm(x, g, b)",
        "m[i] = min(x[i, k], k)\ns[i] = sum(abs(x[i, k] - m[i]), k)\nreturn s, m",
        "return mean(x, axis=1), max(x, axis=0)",
        "s = sum(x[i, j] * x[i, j], (i, j))\nreturn x / (1 + s)",
    ]
    shapes = {"x": f"{t}[{m}, {n}]", "g": f"{t}[{n}]", "b": f"{t}[{n}]"}
    return _text(shapes, draw(st.sampled_from(bodies)))


@st.composite
def _stencil(draw: st.DrawFn) -> str:
    """Chains whose members read each other at several offsets, some of them outside of the domain."""
    n, m, t = draw(sizes), draw(short), draw(dtypes)
    near, far = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    first = [
        "u[i, j] = x[i, j] * 2 - 1",
        f"u[i, j] = where(i >= {far}, x[i - {far}, j], 0.25) + x[i, j]",
        f"u[i, j] = x[{n - 1} - i, j] + x[i, j]",
        "u[i, j] = tanh(x[i, j])",
    ]
    second = [
        f"v[i, j] = where(i + {near} < {n}, u[i + {near}, j], 0.5) + u[i, j]",
        f"v[i, j] = u[{n - 1} - i, j] - where(i >= {near}, u[i - {near}, j], 0)",
        f"v[i, j] = max(u[i, j], where(i >= {far}, u[i - {far}, j], "
        f"where(i + {near} < {n}, u[i + {near}, j], 2)))",
        "v[i, j] = u[i, j] * sum(u[i, k], k)",
    ]
    third = [
        "return v",
        "return v, u",
        "q[i, j] = where(i >= 1, v[i - 1, j], u[i, j])\nreturn q",
        "w[j] = sum(v[i, j] * u[i, j], i)\nreturn w",
        "w[i] = max(v[i, j], j)\nreturn w, u[i, j] + w[i]",
    ]
    body = "\n".join(draw(st.sampled_from(part)) for part in (first, second, third))
    return _text({"x": f"{t}[{n}, {m}]"}, body)


@st.composite
def _elementwise(draw: st.DrawFn) -> str:
    m, n, t = draw(sizes), draw(sizes), draw(dtypes)
    bodies = [
        "y = relu(a * b + c)\nreturn y, y - a",
        "y = sigmoid(a) * c\nz = erf(y) + b\nreturn z * y",
        "return where(a > 0, a, b * 0.25) + c",
        "y = exp(minimum(a, c))\nreturn log(abs(y) + 0.5), sqrt(y + 1)",
        "y[i, j] = a[i, j] + b[j]\nz[j, i] = y[i, j] * 2\nreturn z",
    ]
    shapes = {"a": f"{t}[{m}, {n}]", "b": f"{t}[{n}]", "c": f"{t}[{m}, 1]"}
    return _text(shapes, draw(st.sampled_from(bodies)))


@st.composite
def _reductions(draw: st.DrawFn) -> str:
    t, shape = draw(dtypes), [draw(short), draw(short), draw(sizes)]
    how = draw(st.sampled_from(["sum", "max", "min", "prod"]))
    kept = draw(st.sampled_from(["", "i", "j", "k", "i, j", "k, i", "j, k"]))
    gone = ", ".join(n for n in "ijk" if n not in kept)
    value = draw(st.sampled_from(["x[i, j, k]", "abs(x[i, j, k])", "x[i, j, k] * w[k]"]))
    target = f"y[{kept}]" if kept else "y"
    return _text(
        {"x": f"{t}[{', '.join(map(str, shape))}]", "w": f"{t}[{shape[2]}]"},
        f"{target} = {how}({value}, ({gone},))\nreturn y",
    )


@st.composite
def _moves(draw: st.DrawFn) -> str:
    m, n, t = draw(sizes), draw(sizes), draw(dtypes)
    half = (m + 1) // 2
    bodies = [
        "return x.T",
        f"return x[{m - 1} - i, j] + x[i, {n - 1} - j]",
        "return concat([x, x + 1], axis=0)",
        "return concat([x, x * 2], axis=1)",
        f"y[i] = x[i, 0]\nreturn y, x.reshape({m}, 1, {n})",
        "y[i, j] = x[2*i, j] * z[i]\nreturn y",
        "y[j, i] = x[i, j] * 0.5\nreturn y",
    ]
    return _text({"x": f"{t}[{m}, {n}]", "z": f"{t}[{half}]"}, draw(st.sampled_from(bodies)))


# -- random expressions -----------------------------------------------------------------------------------

_UNARY = (UnaryOp.NEG, UnaryOp.ABS, UnaryOp.TANH, UnaryOp.SIGMOID, UnaryOp.ERF)
_BINARY = (BinaryOp.ADD, BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MAX, BinaryOp.MIN)


@st.composite
def random_programs(draw: st.DrawFn) -> Program:
    dtype = draw(st.sampled_from([DType.F32, DType.F64]))
    shapes = st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 9]), min_size=1, max_size=3).map(tuple)
    inputs = [
        Tensor(f"x{n}", draw(shapes), dtype, draw(st.booleans())) for n in range(draw(st.integers(1, 2)))
    ]
    tensors, stages = list(inputs), []
    for n in range(draw(st.integers(1, 3))):
        stage = draw(_stages(f"s{n}", tensors, inputs, dtype))
        stages.append(stage)
        tensors.append(stage.tensor)
    read = {r for s in stages for r in s.reads}
    outputs = tuple(s.name for s in stages if s.name not in read or draw(st.integers(0, 4)) == 0)
    kept = tuple(t for t in inputs if t.name in read) or tuple(inputs[:1])
    program = Program("random", kept, tuple(stages), outputs)
    verify_program(program)
    return program


@st.composite
def _stages(draw: st.DrawFn, name: str, tensors: list[Tensor], inputs: list[Tensor], dtype: DType) -> Stage:
    extents = st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9]), max_size=3)
    axes = tuple(Axis(n, e) for n, e in zip("ijk", draw(extents), strict=False))
    reducer = draw(st.sampled_from([None, None, *Reducer]))
    reduce_axes: tuple[Axis, ...] = ()
    if reducer is not None:
        reduce_axes = tuple(
            Axis(n, draw(st.sampled_from([1, 2, 3, 5, 8]))) for n in "rs"[: draw(st.integers(1, 2))]
        )
    every = {a.name: a.extent for a in axes + reduce_axes}
    body = draw(_expressions(every, tensors, inputs, 3))
    if reducer is not None:  # keep products and sums of chains moderate
        body = Unary(UnaryOp.TANH, body) if _depends(body, tensors, inputs) else body
    return Stage(name, axes, reduce_axes, reducer, body, dtype, dtype)


def _depends(body: Expr, tensors: list[Tensor], inputs: list[Tensor]) -> bool:
    return any(load.tensor not in {t.name for t in inputs} for load in loads(body))


@st.composite
def _expressions(
    draw: st.DrawFn, axes: Mapping[str, int], tensors: list[Tensor], inputs: list[Tensor], depth: int
) -> Expr:
    kind = draw(st.integers(0, 7 if depth else 2))
    if kind == 0 and depth < 3:
        return Const(float(draw(st.integers(-3, 3))) / 2)
    if kind <= 2:
        return draw(_accesses(axes, tensors))
    a = draw(_expressions(axes, tensors, inputs, depth - 1))
    if kind == 3:
        return Unary(draw(st.sampled_from(_UNARY)), a)
    b = draw(_expressions(axes, tensors, inputs, depth - 1))
    if kind <= 5:
        return Binary(draw(st.sampled_from(_BINARY)), a, b)
    if kind == 6:
        c, d = draw(_accesses(axes, inputs)), Const(float(draw(st.integers(-2, 2))) / 2)
        return Select(Compare(draw(st.sampled_from(list(CompareOp))), c, d), a, b)
    cond = draw(_indices(axes))
    inner = draw(_accesses(axes, tensors))
    return Within((cond,), inner, b) if cond.terms else inner


@st.composite
def _accesses(draw: st.DrawFn, axes: Mapping[str, int], tensors: list[Tensor]) -> Expr:
    """A load in range, or one guarded so that it is."""
    tensor = draw(st.sampled_from(tensors))
    index = tuple(draw(_indices(axes)) for _ in tensor.shape)
    ranges = {n: (0, e - 1) for n, e in axes.items()}
    conds = []
    for i, extent in zip(index, tensor.shape, strict=True):
        lo, hi = interval(i, ranges)
        conds += [i] * (lo < 0) + [-i + (extent - 1)] * (hi >= extent)
    if not all(c.terms for c in conds):
        return Const(0.25)
    load = Load(tensor.name, index)
    return Within(tuple(conds), load, Const(0.5)) if conds else load


@st.composite
def _indices(draw: st.DrawFn, axes: Mapping[str, int]) -> Affine:
    names = draw(st.lists(st.sampled_from(sorted(axes)), max_size=2, unique=True)) if axes else []
    terms = {n: draw(st.sampled_from([1, 1, 1, 2, -1])) for n in names}
    return Affine.of(terms, draw(st.sampled_from([0, 0, 0, 1, -1, 2, -2, 3])))
