"""Array functions made of several stages, or of one that isn't elementwise."""

import ast
from collections.abc import Sequence

from tunesmith.ir.affine import Affine, var
from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Reducer, Unary, UnaryOp, Within
from tunesmith.ir.language.arrays import (
    Array,
    axis_name,
    elementwise,
    load,
    positions,
    reduce,
    scaled,
    stored,
)
from tunesmith.ir.language.builder import Builder, Computation

__all__ = ["concat", "layer_norm", "pad", "rms_norm", "softmax"]


def _join(op: BinaryOp, *values: Array) -> Array:
    out = elementwise(lambda *parts: _chain(op, parts), values)
    assert out is not None, "the operands are of one shape up to broadcasting"
    return out


def _chain(op: BinaryOp, parts: Sequence[Expr]) -> Expr:
    out, *rest = parts
    for p in rest:
        out = Binary(op, out, p)
    return out


def _unary(op: UnaryOp, a: Array) -> Array:
    return Array(a.shape, Unary(op, a.expr))


def _shifted(a: Array, c: float) -> Array:
    return Array(a.shape, Binary(BinaryOp.ADD, a.expr, Const(c)))


def softmax(a: Array, dim: int, builder: Builder, node: ast.AST) -> Array:
    """exp(x - max x) times 1 / sum of the same: exp is taken once an element, the quotient once a row.

    The maximum may pass over NaN, since the sum does not.
    """
    x = stored(a, "x", builder, node)
    top = reduce(x, [dim], Reducer.FMAX, True, "max", builder, node)
    e = stored(_unary(UnaryOp.EXP, _join(BinaryOp.SUB, x, top)), "exp", builder, node)
    total = reduce(e, [dim], Reducer.SUM, True, "sum", builder, node)
    return _join(BinaryOp.MUL, e, Array(total.shape, Binary(BinaryOp.DIV, Const(1.0), total.expr)))


def layer_norm(a: Array, weights: Sequence[Array], eps: float, builder: Builder, node: ast.AST) -> Array:
    """(x - mean) * rsqrt(variance + eps) [* gamma [+ beta]] over the last axis, in two passes."""
    x = stored(a, "x", builder, node)
    n, last = x.shape[-1], [x.rank - 1]
    mean = scaled(reduce(x, last, Reducer.SUM, True, "sum", builder, node), 1 / n)
    centred = _join(BinaryOp.SUB, x, mean)
    squares = reduce(_join(BinaryOp.MUL, centred, centred), last, Reducer.SUM, True, "squares", builder, node)
    scale = _unary(UnaryOp.RSQRT, _shifted(scaled(squares, 1 / n), eps))
    out = _join(BinaryOp.MUL, centred, scale, *weights[:1])
    return _join(BinaryOp.ADD, out, *weights[1:])


def rms_norm(a: Array, weights: Sequence[Array], eps: float, builder: Builder, node: ast.AST) -> Array:
    """x * rsqrt(mean of squares + eps) [* gamma] over the last axis."""
    x = stored(a, "x", builder, node)
    n, last = x.shape[-1], [x.rank - 1]
    squares = reduce(_join(BinaryOp.MUL, x, x), last, Reducer.SUM, True, "squares", builder, node)
    scale = _unary(UnaryOp.RSQRT, _shifted(scaled(squares, 1 / n), eps))
    return _join(BinaryOp.MUL, x, scale, *weights)


def pad(a: Array, amounts: Sequence[tuple[int, int]], value: float, builder: Builder, node: ast.AST) -> Array:
    """A stage: the element where the index is inside, ``value`` elsewhere."""
    conds: list[Affine] = []
    index: list[Affine] = []
    for n, ((before, after), extent) in enumerate(zip(amounts, a.shape, strict=True)):
        i = var(axis_name(n)) - before
        index.append(i)
        conds += [i] * (before > 0) + [-i + (extent - 1)] * (after > 0)
    shape = tuple(e + before + after for e, (before, after) in zip(a.shape, amounts, strict=True))
    body = Within(tuple(conds), a.at(index), Const(value)) if conds else a.expr
    return _stage(Array(shape, body), "pad", builder, node)


def concat(arrays: Sequence[Array], dim: int, builder: Builder, node: ast.AST) -> Array:
    """A stage that picks the array by the index along ``dim``. Every branch is guarded on both sides, so
    that none is read out of bounds even where the other branch is taken."""
    total = sum(a.shape[dim] for a in arrays)
    body: Expr = Const(0.0)
    start = total
    for a in reversed(arrays):
        end, start = start, start - a.shape[dim]
        i = var(axis_name(dim)) - start
        index = [i if n == dim else p for n, p in enumerate(positions(a.rank))]
        conds = [i] * (start > 0) + [-i + (end - start - 1)] * (end < total)
        body = Within(tuple(conds), a.at(index), body) if conds else a.expr
    first = arrays[0].shape
    return _stage(Array((*first[:dim], total, *first[dim + 1 :]), body), "concat", builder, node)


def _stage(a: Array, suffix: str, builder: Builder, node: ast.AST) -> Array:
    return load(builder.generate(suffix, Computation(a.axes, builder.checked(a.expr, node)), node), a.shape)
