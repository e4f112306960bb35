"""Functions of the language on scalar expressions, written out with the nodes of the grammar."""

import math
from collections.abc import Callable

from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Load, Reducer, Unary, UnaryOp, children
from tunesmith.ir.fold import binary, unary

__all__ = ["BINARY", "REDUCERS", "UNARY", "mean_scale", "power"]


def _relu(x: Expr) -> Expr:
    return binary(BinaryOp.MAX, x, Const(0.0))


def _mul(*factors: Expr) -> Expr:
    out, *rest = factors
    for f in rest:
        out = Binary(BinaryOp.MUL, out, f)
    return out


def _gelu(x: Expr) -> Expr:
    """x/2 * (1 + erf(x / sqrt 2)), Hendrycks and Gimpel 2016."""
    erf = Unary(UnaryOp.ERF, _mul(x, Const(math.sqrt(0.5))))
    return _mul(Const(0.5), x, Binary(BinaryOp.ADD, Const(1.0), erf))


def _gelu_tanh(x: Expr) -> Expr:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the same paper's approximation."""
    cubic = Binary(BinaryOp.ADD, x, _mul(Const(0.044715), x, x, x))
    tanh = Unary(UnaryOp.TANH, _mul(Const(math.sqrt(2 / math.pi)), cubic))
    return _mul(Const(0.5), x, Binary(BinaryOp.ADD, Const(1.0), tanh))


def _silu(x: Expr) -> Expr:
    return _mul(x, Unary(UnaryOp.SIGMOID, x))


def power(x: Expr, y: Expr) -> Expr:
    """x to the y, where to the half is the square root, as in NumPy. The square of something cheap is the
    product that it would be written as otherwise."""
    if y == Const(0.5):
        return unary(UnaryOp.SQRT, x)
    if y == Const(2.0) and isinstance(x, Load):
        return Binary(BinaryOp.MUL, x, x)
    if y == Const(2.0) and isinstance(x, Binary) and all(isinstance(c, Load | Const) for c in children(x)):
        return Binary(BinaryOp.MUL, x, x)
    return binary(BinaryOp.POW, x, y)


def _unary(op: UnaryOp) -> Callable[[Expr], Expr]:
    return lambda x: unary(op, x)


def _binary(op: BinaryOp) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: binary(op, a, b)


UNARY: dict[str, Callable[[Expr], Expr]] = {
    **{op.value: _unary(op) for op in UnaryOp if op is not UnaryOp.NEG},
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
}

BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "max": _binary(BinaryOp.MAX),
    "maximum": _binary(BinaryOp.MAX),
    "min": _binary(BinaryOp.MIN),
    "minimum": _binary(BinaryOp.MIN),
    "pow": power,
    "power": power,
}

REDUCERS: dict[str, Reducer] = {
    **{r.value: r for r in Reducer},
    "mean": Reducer.SUM,  # scaled where it is used: the scaling is elementwise
}


def mean_scale(e: Expr, count: int) -> Expr:
    return Binary(BinaryOp.MUL, e, Const(1 / count))
