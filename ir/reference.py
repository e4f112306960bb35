"""What a program computes, by NumPy: the measure that every kernel is held against.

Sums of products go to matrix products of strided views (contraction.py). Everything else is evaluated
by broadcasting, in boxes of the iteration domain that are small enough to stay in cache.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tunesmith.ir.contraction import contract, contraction_of
from tunesmith.ir.erf import erf
from tunesmith.ir.errors import TunesmithError
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
)
from tunesmith.ir.program import Axis, Program, Stage, Tensor
from tunesmith.ir.views import Span, grid, materialise_guards, view

__all__ = ["evaluate"]

Array = NDArray[Any]

_BOX_ELEMENTS = 1 << 17


def evaluate(
    program: Program, inputs: Mapping[str, NDArray[Any]], dtype: DTypeLike | None = np.float64
) -> dict[str, NDArray[Any]]:
    """The outputs by name, computed and returned in ``dtype``, or in the type of each stage if it is None.

    ``max`` and ``min`` propagate NaN; nothing warns. Raises ``TunesmithError`` for an input that is
    missing or has another shape.
    """
    tensors = {t.name: _operand(t, inputs, dtype) for t in program.inputs}
    last = _last_uses(program)
    with np.errstate(all="ignore"):
        for n, stage in enumerate(program.stages):
            if stage.name in last:
                tensors[stage.name] = _stage(stage, tensors, np.dtype(dtype or stage.accumulate.numpy))
            for name in [t for t in tensors if last.get(t, n) == n and t not in program.outputs]:
                del tensors[name]
    return {name: tensors[name] for name in program.outputs}


def _operand(t: Tensor, inputs: Mapping[str, NDArray[Any]], dtype: DTypeLike | None) -> Array:
    if t.name not in inputs:
        raise TunesmithError(f"input {t.name} is missing; its shape is {t.shape}")
    array = np.asarray(inputs[t.name])
    if array.shape != t.shape:
        raise TunesmithError(f"input {t.name} has shape {array.shape}; the program needs {t.shape}")
    return np.ascontiguousarray(array, np.dtype(dtype or t.dtype.numpy)).reshape(t.shape)


def _last_uses(program: Program) -> dict[str, int]:
    """The number of the last stage that reads each tensor; stages that nothing needs read nothing."""
    last = dict.fromkeys(program.outputs, len(program.stages))
    for n, stage in reversed(list(enumerate(program.stages))):
        if stage.name in last:
            for name in stage.reads:
                last.setdefault(name, n)
    return last


def _stage(stage: Stage, tensors: Mapping[str, Array], dtype: np.dtype[Any]) -> Array:
    available = {name: tensors[name] for name in stage.reads}
    body = materialise_guards(stage.body, stage.all_axes, available)
    contraction = contraction_of(stage, body)
    if contraction is not None:
        return contract(stage, contraction, available, dtype)
    out = np.full(stage.shape, stage.reducer.identity if stage.reducer else 0, dtype)
    for spans in _boxes(stage.all_axes):
        values = _Box(available, spans, dtype).value(body)
        box = tuple(slice(s.start, s.start + s.size) for s in spans[: len(stage.axes)])
        target = out[box] if box else out
        _join(stage, target, values, spans)
    return out


def _join(stage: Stage, target: Array, values: Array, spans: Sequence[Span]) -> None:
    if stage.reducer is None:
        target[...] = values
        return
    ufunc = _REDUCE[stage.reducer]
    whole = np.broadcast_to(values, [s.size for s in spans])
    partial = ufunc.reduce(whole, axis=tuple(range(len(stage.axes), len(spans))))
    ufunc(target, partial, out=target)


def _boxes(axes: Sequence[Axis]) -> Iterator[tuple[Span, ...]]:
    """The domain in boxes, cut along the outer axes so that inner ones stay whole."""
    sizes = [a.extent for a in axes]
    for n in range(len(sizes)):
        inner = math.prod(sizes[n + 1 :])
        sizes[n] = min(sizes[n], max(1, _BOX_ELEMENTS // inner))
    starts = (
        [Span(a.name, s, min(size, a.extent - s)) for s in range(0, a.extent, size)]
        for a, size in zip(axes, sizes, strict=True)
    )
    return itertools.product(*starts)


class _Box:
    """Evaluates expressions over the spans; values have size 1 along axes they don't depend on."""

    def __init__(self, tensors: Mapping[str, Array], spans: Sequence[Span], dtype: np.dtype[Any]) -> None:
        self.tensors = tensors
        self.spans = spans
        self.dtype = dtype

    def value(self, e: Expr, clip: bool = False) -> Array:
        """``clip``: the loads may be out of range at points whose value is not used."""
        match e:
            case Const(value):
                return np.full((1,) * len(self.spans), value, self.dtype)
            case Load(tensor, index):
                array = self.tensors[tensor]
                return self._gather(array, e) if clip else view(array, index, self.spans)
            case Unary(op, a):
                return _UNARY[op](self.value(a, clip))
            case Binary(op, a, b):
                return _BINARY[op](self.value(a, clip), self.value(b, clip))
            case Compare(op, a, b):
                return _COMPARE[op](self.value(a, clip), self.value(b, clip))
            case Select(cond, a, b):
                return np.where(self.value(cond, clip), self.value(a, clip), self.value(b, clip))
            case Within():
                return self._within(e, clip)

    def _gather(self, array: Array, load: Load) -> Array:
        index = tuple(
            np.clip(grid(i, self.spans), 0, n - 1) for i, n in zip(load.index, array.shape, strict=True)
        )
        return np.asarray(array[index] if index else np.full((1,) * len(self.spans), array, array.dtype))

    def _within(self, e: Within, clip: bool) -> Array:
        mask = np.ones((1,) * len(self.spans), np.bool_)
        for cond in e.conds:
            mask = mask & (grid(cond, self.spans) >= 0)
        if mask.all():
            return self.value(e.a, clip)
        if not mask.any():
            return self.value(e.b, clip)
        return np.where(mask, self.value(e.a, True), self.value(e.b, clip))


_REDUCE: dict[Reducer, np.ufunc] = {
    Reducer.SUM: np.add,
    Reducer.PROD: np.multiply,
    Reducer.MAX: np.maximum,
    Reducer.MIN: np.minimum,
    Reducer.FMAX: np.fmax,
    Reducer.FMIN: np.fmin,
}

def _power(a: Array, b: Array) -> Array:
    """C's pow: where the exponent is one number, NumPy takes the square root in place of the power 1/2."""
    return np.asarray(np.power(*(np.ascontiguousarray(v) for v in np.broadcast_arrays(a, b))))


_UNARY: dict[UnaryOp, Callable[[Array], Array]] = {
    UnaryOp.NEG: np.negative,
    UnaryOp.ABS: np.abs,
    UnaryOp.SQRT: np.sqrt,
    UnaryOp.RSQRT: lambda a: 1 / np.sqrt(a),
    UnaryOp.EXP: np.exp,
    UnaryOp.EXP2: np.exp2,
    UnaryOp.LOG: np.log,
    UnaryOp.LOG2: np.log2,
    UnaryOp.LOG10: np.log10,
    UnaryOp.SIN: np.sin,
    UnaryOp.COS: np.cos,
    UnaryOp.TANH: np.tanh,
    UnaryOp.SIGMOID: lambda a: 1 / (1 + np.exp(-a)),
    UnaryOp.ERF: erf,
}

_BINARY: dict[BinaryOp, Callable[[Array, Array], Array]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.MAX: np.maximum,
    BinaryOp.MIN: np.minimum,
    BinaryOp.POW: _power,
}

_COMPARE: dict[CompareOp, Callable[[Array, Array], Array]] = {
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.GT: np.greater,
    CompareOp.GE: np.greater_equal,
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
}
