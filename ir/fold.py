"""Nodes with constants folded, where the result is finite and the folding exact enough to be invisible."""

import math
from collections.abc import Callable

from tunesmith.ir import scalar_math
from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Unary, UnaryOp

__all__ = ["binary", "unary"]

_BINARY: dict[BinaryOp, Callable[[float, float], float]] = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.DIV: lambda a, b: a / b if b else math.nan,
    BinaryOp.MAX: max,
    BinaryOp.MIN: min,
    BinaryOp.POW: scalar_math.BINARY[BinaryOp.POW],
}

_UNARY: dict[UnaryOp, Callable[[float], float]] = {
    UnaryOp.NEG: lambda a: -a,
    UnaryOp.ABS: abs,
    UnaryOp.SQRT: lambda a: math.sqrt(a) if a >= 0 else math.nan,
    UnaryOp.RSQRT: lambda a: 1 / math.sqrt(a) if a > 0 else math.nan,
}


def unary(op: UnaryOp, a: Expr) -> Expr:
    """``op(a)``; the sign goes into a constant, and finite constants are folded in float64."""
    if isinstance(a, Const):
        if op is UnaryOp.NEG:
            return Const(-a.value)
        if op in _UNARY and math.isfinite(value := _UNARY[op](a.value)):
            return Const(value)
    return Unary(op, a)


def binary(op: BinaryOp, a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        value = _BINARY[op](a.value, b.value)
        if math.isfinite(a.value) and math.isfinite(b.value) and math.isfinite(value):
            return Const(value)
    return Binary(op, a, b)
