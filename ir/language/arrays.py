"""Array form: NumPy's broadcasting over expressions that stay one stage for as long as they can."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunesmith.ir.affine import Affine, constant, var
from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Load, Reducer, substitute
from tunesmith.ir.language.builder import Builder, Computation
from tunesmith.ir.program import Axis

__all__ = [
    "Array",
    "axis_name",
    "broadcast",
    "elementwise",
    "load",
    "matmul",
    "permuted",
    "positions",
    "reduce",
    "reshaped",
    "scaled",
    "stored",
]


@dataclass(frozen=True, slots=True)
class Array:
    """A value that has not been stored: ``expr`` is the element at ``i0, i1, …``."""

    shape: tuple[int, ...]
    expr: Expr

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(Axis(axis_name(n), e) for n, e in enumerate(self.shape))

    def at(self, index: Sequence[Affine]) -> Expr:
        """The element at these indices."""
        return substitute(self.expr, {axis_name(n): i for n, i in enumerate(index)})


def axis_name(n: int) -> str:
    return f"i{n}"


def positions(rank: int) -> tuple[Affine, ...]:
    return tuple(var(axis_name(n)) for n in range(rank))


def load(name: str, shape: tuple[int, ...]) -> Array:
    return Array(shape, Load(name, positions(len(shape))))


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The common shape by NumPy's rule, or None if there is none."""
    rank = max(map(len, shapes), default=0)
    out = []
    for n in range(-rank, 0):
        extents = {s[n] for s in shapes if len(s) >= -n} - {1}
        if len(extents) > 1:
            return None
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def _spread(a: Array, shape: tuple[int, ...]) -> Expr:
    """The element of ``a``, broadcast to ``shape``, at ``i0, i1, …``."""
    return a.at(_spread_index(a.shape, shape))


def _spread_index(shape: tuple[int, ...], to: tuple[int, ...]) -> tuple[Affine, ...]:
    skip = len(to) - len(shape)
    return tuple(
        constant(0) if e == 1 and to[n + skip] > 1 else var(axis_name(n + skip)) for n, e in enumerate(shape)
    )


def elementwise(f: Callable[..., Expr], values: Sequence[Array]) -> Array | None:
    """``f`` on the elements of values broadcast to each other; None if their shapes don't fit."""
    shape = broadcast([v.shape for v in values])
    if shape is None:
        return None
    return Array(shape, f(*(_spread(v, shape) for v in values)))


def permuted(a: Array, order: Sequence[int]) -> Array:
    """Dimension n of the result is dimension ``order[n]`` of ``a``."""
    index = [constant(0)] * a.rank
    for n, d in enumerate(order):
        index[d] = var(axis_name(n))
    return Array(tuple(a.shape[d] for d in order), a.at(index))


def reshaped(a: Array, shape: tuple[int, ...]) -> Array | None:
    """The same elements in row-major order; None where that takes // and %, which is when
    dimensions are merged. Splitting one and adding or removing extents of 1 is affine."""
    index: list[Affine] = []
    d = 0
    for extent in a.shape:
        at = constant(0)
        taken = 1
        while taken < extent and d < len(shape):
            if extent % (taken * shape[d]):
                return None
            if shape[d] > 1:
                at = at * shape[d] + var(axis_name(d))
            taken, d = taken * shape[d], d + 1
        index.append(at)
    return Array(shape, a.at(index))


def stored(a: Array, suffix: str, builder: Builder, node: ast.AST) -> Array:
    """The value as a tensor that is read; a generated stage unless it is one."""
    if isinstance(a.expr, Load):
        return a
    return load(builder.generate(suffix, Computation(a.axes, a.expr), node), a.shape)


def reduce(
    a: Array, dims: Sequence[int], reducer: Reducer, keep: bool, suffix: str, builder: Builder, node: ast.AST
) -> Array:
    """A generated stage that reduces these dimensions; ``keep`` leaves them in the shape with extent 1."""
    kept = [n for n in range(a.rank) if n not in dims]
    index = [constant(0)] * a.rank
    for new, old in enumerate(kept):
        index[old] = var(axis_name(new))
    for new, old in enumerate(dims):
        index[old] = var(f"r{new}")
    axes = tuple(Axis(axis_name(n), a.shape[d]) for n, d in enumerate(kept))
    reduce_axes = tuple(Axis(f"r{n}", a.shape[d]) for n, d in enumerate(dims))
    name = builder.generate(suffix, Computation(axes, a.at(index), reduce_axes, reducer), node)
    out = load(name, tuple(e.extent for e in axes))
    if not keep:
        return out
    shape = tuple(1 if n in dims else e for n, e in enumerate(a.shape))
    return Array(shape, out.at([var(axis_name(n)) for n in kept]))


def matmul(a: Array, b: Array, builder: Builder, node: ast.AST) -> Array | None:
    """``a @ b`` by NumPy's rules for vectors and batches; None if the shapes don't fit."""
    if not a.rank or not b.rank:
        return None
    a, b = stored(a, "left", builder, node), stored(b, "right", builder, node)
    batch = broadcast([a.shape[:-2], b.shape[:-2]])
    if batch is None or a.shape[-1] != b.shape[max(b.rank - 2, 0)]:
        return None
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
    shape = batch + rows + columns
    k = var("r0")
    row = [var(axis_name(len(batch)))] if rows else []
    column = [var(axis_name(len(shape) - 1))] if columns else []
    left = a.at([*_spread_index(a.shape[:-2], batch), *row, k])
    right = b.at([*_spread_index(b.shape[:-2], batch), k, *column])
    axes = tuple(Axis(axis_name(n), e) for n, e in enumerate(shape))
    body = Binary(BinaryOp.MUL, left, right)
    computation = Computation(axes, body, (Axis("r0", a.shape[-1]),), Reducer.SUM)
    return load(builder.generate(Reducer.SUM.value, computation, node), shape)


def scaled(a: Array, factor: float) -> Array:
    return Array(a.shape, Binary(BinaryOp.MUL, a.expr, Const(factor)))
