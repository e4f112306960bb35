"""Texts, a plain lowering, random inputs and random programs, shared by the tests of this folder."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tunesmith.ir import Axis, DType, Program, Stage, Tensor
from tunesmith.ir.affine import Affine, interval, var
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
from tunesmith.ir.loopnest import Buffer, For, LoopKind, LoopNest, Role, Stmt, Store, Update

DENSE = """
def dense(x: f32[8, 12], w: f32[20, 12], b: f32[20]):
    y[i, o] = sum(x[i, k] * w[o, k], k)
    return gelu(y[i, o] + b[o])
"""

CONV = """
def conv(x: f32[1, 6, 7, 4], w: const[f32[3, 3, 4, 5]], b: const[f32[5]]):
    p = pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y[n, h, v, o] = sum(p[n, h + r, v + s, c] * w[r, s, c, o], (r, s, c))
    return relu(y + b)
"""

MIXED = """
def mixed(a: f64[6, 4], g: f64[4], b: f64[4], s: f64):
    x = layer_norm(a, g, b)
    y = softmax(x * s)
    z[i, j] = exp(a[i, j] - max(a[i, k], k)) / sum(exp(a[i, j2] - max(a[i, k], k)), j2)
    q = concat([y, z], axis=1)
    t[i] = where(i < 2, g[i], b[i - 2])
    return y @ z.T, q, mean(q, axis=(0, 1)), q.reshape(2, 3, 8), where(a > 0, a, -a) + t[0:1]
""".replace(" + t[0:1]", ", t")

POOL = """
def pool(x: f32[1, 8, 8, 4]):
    p = pad(x, ((0, 0), (1, 0), (0, 1), (0, 0)), value=-inf)
    return max(p[n, 2*h + r, 2*w + s, c], r=2, s=2)
"""

TEXTS = (DENSE, CONV, MIXED, POOL)


def inputs_of(program: Program, seed: int = 0) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in program.inputs}


def plain_nest(program: Program) -> LoopNest:
    """Every stage as loops around a store, in the order of its axes."""
    inputs = [Buffer(t.name, t.shape, t.dtype, Role.INPUT, t.const) for t in program.inputs]
    roles = {s.name: Role.OUTPUT if s.name in program.outputs else Role.TEMP for s in program.stages}
    results = [Buffer(s.name, s.shape, s.dtype, roles[s.name]) for s in program.stages]
    body = tuple(statement for s in program.stages for statement in _stage(s))
    return LoopNest(program.name, (*inputs, *results), (), body)


def _stage(s: Stage) -> tuple[Stmt, ...]:
    index = tuple(var(a.name) for a in s.axes)
    if s.reducer is None:
        return _loops(s.axes, (Store(s.name, index, s.body),))
    update = _loops(s.reduce_axes, (Update(s.name, index, s.reducer, s.body),))
    return _loops(s.axes, (Store(s.name, index, Const(s.reducer.identity)), *update))


def _loops(axes: tuple[Axis, ...], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for a in reversed(axes):
        body = (For(a.name, a.extent, (), LoopKind.SERIAL, body),)
    return body


# -- random programs

_SAFE_UNARY = (
    UnaryOp.NEG, UnaryOp.ABS, UnaryOp.TANH, UnaryOp.SIGMOID, UnaryOp.ERF, UnaryOp.SIN, UnaryOp.COS,
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Small verified programs in f64 whose values stay finite and every input of which is read."""
    shapes = st.lists(st.integers(1, 5), max_size=3).map(tuple)
    tensors = [
        Tensor(f"x{n}", draw(shapes), DType.F64, draw(st.booleans())) for n in range(draw(st.integers(1, 3)))
    ]
    inputs = tuple(tensors)
    stages: list[Stage] = []
    for n in range(draw(st.integers(1, 3))):
        stage = draw(_stages(f"s{n}", tensors))
        stages.append(stage)
        tensors.append(stage.tensor)
    unread = {t.name for t in tensors} - {r for s in stages for r in s.reads}
    outputs = tuple(s.name for s in stages if s.name in unread)
    read = tuple(t for t in inputs if t.name not in unread)
    return Program("random", read or inputs[:1], tuple(stages), outputs)


@st.composite
def _stages(draw: st.DrawFn, name: str, tensors: list[Tensor]) -> Stage:
    extents = st.lists(st.integers(1, 5), max_size=3)
    axes = tuple(Axis(n, e) for n, e in zip("ijk", draw(extents), strict=False))
    reducer = draw(st.sampled_from([None, None, *Reducer]))
    reduce_axes = ()
    if reducer is not None:
        reduce_axes = tuple(Axis(n, draw(st.integers(1, 4))) for n in "rs"[: draw(st.integers(1, 2))])
    every = {a.name: a.extent for a in axes + reduce_axes}
    body = draw(_expressions(every, tensors, 3))
    used = {n for e in loads(body) for i in e.index for n in i.names}
    if not used.issuperset(a.name for a in reduce_axes):
        reducer, reduce_axes = None, ()
        axes = tuple(Axis(n, e) for n, e in every.items())
    return Stage(name, axes, reduce_axes, reducer, body, DType.F64, DType.F64)


@st.composite
def _expressions(draw: st.DrawFn, axes: Mapping[str, int], tensors: list[Tensor], depth: int) -> Expr:
    kind = draw(st.integers(0, 7 if depth else 2))
    if kind == 0:
        return Const(float(draw(st.integers(-3, 3))) / 2)
    if kind <= 2:
        return draw(_accesses(axes, tensors))
    a = draw(_expressions(axes, tensors, depth - 1))
    if kind == 3:
        return Unary(draw(st.sampled_from(_SAFE_UNARY)), a)
    b = draw(_expressions(axes, tensors, depth - 1))
    if kind == 4:
        ops = [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MAX, BinaryOp.MIN]
        return Binary(draw(st.sampled_from(ops)), a, b)
    if kind == 5:
        return Binary(BinaryOp.MUL, a, b)
    if kind == 6:
        c = draw(_accesses(axes, tensors))
        return Select(Compare(draw(st.sampled_from(list(CompareOp))), c, a), a, b)
    return draw(_guarded(axes, tensors, b))


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
def _guarded(draw: st.DrawFn, axes: Mapping[str, int], tensors: list[Tensor], other: Expr) -> Expr:
    cond = draw(_indices(axes))
    inner = draw(_accesses(axes, tensors))
    return Within((cond,), inner, other) if cond.terms else inner


@st.composite
def _indices(draw: st.DrawFn, axes: Mapping[str, int]) -> Affine:
    names = draw(st.lists(st.sampled_from(sorted(axes)), max_size=2, unique=True)) if axes else []
    terms = {n: draw(st.sampled_from([1, 1, 1, 2, -1])) for n in names}
    return Affine.of(terms, draw(st.integers(-2, 3)))
