"""Loads as strided views: the elements that an affine index visits, without copying them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tunesmith.ir.affine import Affine, interval
from tunesmith.ir.bounds import axis_ranges
from tunesmith.ir.expr import Const, Expr, Load, Within, children, rebuild
from tunesmith.ir.program import Axis

__all__ = ["Span", "grid", "materialise_guards", "view"]

Array = NDArray[Any]

_PADDED_ELEMENTS = 1 << 26


class Span(NamedTuple):
    """The points ``start … start + size - 1`` of an axis."""

    name: str
    start: int
    size: int


def view(array: Array, index: Sequence[Affine], spans: Sequence[Span]) -> Array:
    """``array[index]`` over the spans, one dimension each; size 1 along those the index does not use.

    NumPy checks the view against the buffer: a wild index raises instead of reading elsewhere.
    """
    offset = sum(i.const * stride for i, stride in zip(index, array.strides, strict=True))
    shape, strides = [], []
    for name, start, size in spans:
        used = [(i.coefficient(name), stride) for i, stride in zip(index, array.strides, strict=True)]
        step = sum(c * stride for c, stride in used)
        offset += step * start
        shape.append(size if any(c for c, _ in used) else 1)
        strides.append(step)
    return np.ndarray(tuple(shape), array.dtype, array, offset, tuple(strides))


def grid(e: Affine, spans: Sequence[Span]) -> NDArray[np.int64]:
    """Values of an affine expression over the spans, size 1 along those it does not use."""
    out = np.full((1,) * len(spans), e.const, np.int64)
    for n, (name, start, size) in enumerate(spans):
        c = e.coefficient(name)
        if c:
            steps = np.arange(start, start + size, dtype=np.int64) * c
            out = out + steps.reshape([size if d == n else 1 for d in range(len(spans))])
    return out


def materialise_guards(body: Expr, axes: Sequence[Axis], tensors: dict[str, Array]) -> Expr:
    """Replace guarded loads by loads of padded copies, added to ``tensors``, where the guard is a box.

    So the reference of a convolution with its padding inlined is as fast as that of a padded one.
    """
    if isinstance(body, Within) and isinstance(body.a, Load) and isinstance(body.b, Const):
        padded = _padded(body.conds, body.a, body.b.value, axes, tensors[body.a.tensor])
        if padded is not None:
            array, index = padded
            name = f"{body.a.tensor}#{len(tensors)}"
            tensors[name] = array
            return Load(name, index)
    return rebuild(body, tuple(materialise_guards(c, axes, tensors) for c in children(body)))


def _padded(
    conds: Sequence[Affine], load: Load, value: float, axes: Sequence[Axis], array: Array
) -> tuple[Array, tuple[Affine, ...]] | None:
    ranges = axis_ranges(axes)
    reach = [interval(i, ranges) for i in load.index]
    size = 1
    for lo, hi in reach:
        size *= hi - lo + 1
    if size > _PADDED_ELEMENTS:
        return None
    inside = [(max(lo, 0), min(hi, n - 1)) for (lo, hi), n in zip(reach, array.shape, strict=True)]
    for cond in conds:
        if not _narrow(inside, cond, load.index):
            return None
    out = np.full([hi - lo + 1 for lo, hi in reach], value, array.dtype)
    if all(first <= last for first, last in inside):
        target = tuple(slice(f - lo, t - lo + 1) for (f, t), (lo, _) in zip(inside, reach, strict=True))
        out[target] = array[tuple(slice(f, t + 1) for f, t in inside)]
    return out, tuple(i - lo for i, (lo, _) in zip(load.index, reach, strict=True))


def _narrow(inside: list[tuple[int, int]], cond: Affine, index: Sequence[Affine]) -> bool:
    """Apply a condition that bounds one index by a constant; False if it is of another kind."""
    for d in range(len(inside)):
        first, last = inside[d]
        below, above = cond - index[d], cond + index[d]
        if not below.terms:
            inside[d] = (max(first, -below.const), last)
            return True
        if not above.terms:
            inside[d] = (first, min(last, above.const))
            return True
    return False
