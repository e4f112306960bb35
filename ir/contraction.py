"""Sums of products of loads as matrix products of strided views."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Load, Reducer, Unary, UnaryOp
from tunesmith.ir.program import Stage
from tunesmith.ir.views import Span, view

__all__ = ["Contraction", "contraction_of", "contract"]

Array = NDArray[Any]

_COPY_ELEMENTS = 1 << 22  # a view that is copied into a matrix is cut into pieces of at most this size
_SMALL_DOMAIN = 1 << 14


@dataclass(frozen=True, slots=True)
class Contraction:
    """``factor`` times the sum over the reduce axes of the product of the loads (two or more)."""

    factor: float
    loads: tuple[Load, ...]


def contraction_of(stage: Stage, body: Expr) -> Contraction | None:
    """The stage as a contraction, where its loads are reused enough to be worth it."""
    if stage.reducer is not Reducer.SUM:
        return None
    found = _product(body)
    domain = math.prod(a.extent for a in stage.all_axes)
    if found is None or len(found.loads) < 2 or domain < _SMALL_DOMAIN:
        return None
    spans = [Span(a.name, 0, a.extent) for a in stage.all_axes]
    if 2 * max(_visited(load, spans) for load in found.loads) > domain:
        return None
    return found


def _product(e: Expr) -> Contraction | None:
    match e:
        case Const(value):
            return Contraction(value, ())
        case Load():
            return Contraction(1.0, (e,))
        case Unary(UnaryOp.NEG, a):
            inner = _product(a)
            return inner and Contraction(-inner.factor, inner.loads)
        case Binary(BinaryOp.MUL, a, b):
            left, right = _product(a), _product(b)
            return left and right and Contraction(left.factor * right.factor, left.loads + right.loads)
        case _:
            return None


def _visited(load: Load, spans: Sequence[Span]) -> int:
    """Points of the axes that the load depends on."""
    names = {n for i in load.index for n in i.names}
    return math.prod(s.size for s in spans if s.name in names)


def contract(stage: Stage, c: Contraction, tensors: Mapping[str, Array], dtype: np.dtype[Any]) -> Array:
    out = np.empty(stage.shape, dtype)
    reduced = [Span(a.name, 0, a.extent) for a in stage.reduce_axes]
    for spans in _pieces(stage, c.loads):
        piece = _evaluate(c, spans, reduced, tensors)
        out[tuple(slice(s.start, s.start + s.size) for s in spans)] = piece
    return out


def _pieces(stage: Stage, loads: Sequence[Load]) -> Iterator[tuple[Span, ...]]:
    """Boxes of the spatial axes in which no load visits too many points."""
    sizes = {a.name: a.extent for a in stage.all_axes}
    spatial = {a.name for a in stage.axes}
    while True:
        spans = [Span(n, 0, s) for n, s in sizes.items()]
        largest = max(loads, key=lambda load: _visited(load, spans))
        if _visited(largest, spans) <= _COPY_ELEMENTS:
            break
        used = {n for i in largest.index for n in i.names} & spatial
        widest = max(used, key=lambda n: (sizes[n], n), default=None)
        if widest is None or sizes[widest] == 1:
            break
        sizes[widest] = (sizes[widest] + 1) // 2
    starts = (
        [Span(a.name, s, min(sizes[a.name], a.extent - s)) for s in range(0, a.extent, sizes[a.name])]
        for a in stage.axes
    )
    yield from itertools.product(*starts)


def _evaluate(
    c: Contraction, spans: tuple[Span, ...], reduced: list[Span], tensors: Mapping[str, Array]
) -> Array:
    every = [*spans, *reduced]
    views = [view(tensors[load.tensor], load.index, every) for load in c.loads]
    if len(views) == 2:
        out = _pair(views[0], views[1], len(spans), [s.size for s in every])
    else:
        out = _einsum(views, len(spans))
    shaped = np.broadcast_to(out, [s.size for s in spans])
    unused = [s.size for n, s in enumerate(reduced, len(spans)) if all(v.shape[n] == 1 for v in views)]
    scaled: Array = np.multiply(shaped, c.factor * math.prod(unused))
    return scaled


def _einsum(views: Sequence[Array], spatial: int) -> Array:
    operands: list[Any] = []
    for v in views:
        dims = [n for n, size in enumerate(v.shape) if size > 1]
        operands += [v.reshape([v.shape[n] for n in dims]), dims]
    kept = [n for n in range(spatial) if any(v.shape[n] > 1 for v in views)]
    out: Array = np.einsum(*operands, kept, optimize=True)
    sizes = dict(zip(kept, out.shape, strict=True))
    return out.reshape([sizes.get(n, 1) for n in range(spatial)])


def _pair(a: Array, b: Array, spatial: int, sizes: list[int]) -> Array:
    """Sum over the dimensions from ``spatial`` on of a * b, as a batch of matrix products."""
    a, b = _presummed(a, b, spatial), _presummed(b, a, spatial)
    dims = range(len(sizes))
    both = [n for n in dims if a.shape[n] > 1 and b.shape[n] > 1]
    batch, inner = [n for n in both if n < spatial], [n for n in both if n >= spatial]
    left = [n for n in dims if a.shape[n] > 1 and n not in both]
    right = [n for n in dims if b.shape[n] > 1 and n not in both]
    product = np.matmul(_matrix(a, batch, left, inner), _matrix(b, batch, inner, right))
    order = batch + left + right
    out = product.reshape([sizes[n] for n in order])
    place = [order.index(n) for n in sorted(order)]
    result: Array = out.transpose(place).reshape([sizes[n] if n in order else 1 for n in range(spatial)])
    return result


def _presummed(a: Array, other: Array, spatial: int) -> Array:
    """Reduced over the reduce axes that the other operand does not depend on."""
    alone = tuple(n for n in range(spatial, a.ndim) if a.shape[n] > 1 and other.shape[n] == 1)
    return np.sum(a, axis=alone, keepdims=True) if alone else a


def _matrix(a: Array, batch: list[int], rows: list[int], columns: list[int]) -> Array:
    rest = [n for n in range(a.ndim) if n not in batch and n not in rows and n not in columns]
    shape = [math.prod(a.shape[n] for n in group) for group in (batch, rows, columns)]
    matrix: Array = a.transpose(batch + rows + columns + rest).reshape(shape)
    return matrix
