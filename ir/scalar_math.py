"""The operations on single Python floats, with NumPy's answers where Python raises."""

import math
from collections.abc import Callable

from tunesmith.ir.expr import BinaryOp, CompareOp, Reducer, UnaryOp

__all__ = ["BINARY", "COMPARE", "REDUCE", "UNARY"]


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _exp2(x: float) -> float:
    try:
        return math.exp2(x)
    except OverflowError:
        return math.inf


def _logarithm(f: Callable[[float], float]) -> Callable[[float], float]:
    def log(x: float) -> float:
        if x > 0 or x != x:
            return f(x)
        return -math.inf if x == 0 else math.nan

    return log


def _finite(f: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.nan if math.isinf(x) else f(x)


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        negative = a < 0 and math.fmod(b, 2) != 0
        return -math.inf if negative else math.inf
    except ValueError:  # a negative number to a fraction, or zero to a negative number
        if a:
            return math.nan
        return math.copysign(math.inf, a) if abs(math.fmod(b, 2)) == 1 else math.inf


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 or x != x else math.nan


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _max(a: float, b: float) -> float:
    return a if a >= b or a != a else b


def _min(a: float, b: float) -> float:
    return a if a <= b or a != a else b


def _fmax(a: float, b: float) -> float:
    return a if a >= b or b != b else b


def _fmin(a: float, b: float) -> float:
    return a if a <= b or b != b else b


UNARY: dict[UnaryOp, Callable[[float], float]] = {
    UnaryOp.NEG: lambda x: -x,
    UnaryOp.ABS: abs,
    UnaryOp.SQRT: _sqrt,
    UnaryOp.RSQRT: lambda x: _divide(1.0, _sqrt(x)),
    UnaryOp.EXP: _exp,
    UnaryOp.EXP2: _exp2,
    UnaryOp.LOG: _logarithm(math.log),
    UnaryOp.LOG2: _logarithm(math.log2),
    UnaryOp.LOG10: _logarithm(math.log10),
    UnaryOp.SIN: _finite(math.sin),
    UnaryOp.COS: _finite(math.cos),
    UnaryOp.TANH: math.tanh,
    UnaryOp.SIGMOID: lambda x: 1 / (1 + _exp(-x)),
    UnaryOp.ERF: math.erf,
}

BINARY: dict[BinaryOp, Callable[[float, float], float]] = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.DIV: _divide,
    BinaryOp.MAX: _max,
    BinaryOp.MIN: _min,
    BinaryOp.POW: _power,
}

COMPARE: dict[CompareOp, Callable[[float, float], bool]] = {
    CompareOp.LT: lambda a, b: a < b,
    CompareOp.LE: lambda a, b: a <= b,
    CompareOp.GT: lambda a, b: a > b,
    CompareOp.GE: lambda a, b: a >= b,
    CompareOp.EQ: lambda a, b: a == b,
    CompareOp.NE: lambda a, b: a != b,
}

REDUCE: dict[Reducer, Callable[[float, float], float]] = {
    Reducer.SUM: BINARY[BinaryOp.ADD],
    Reducer.PROD: BINARY[BinaryOp.MUL],
    Reducer.MAX: _max,
    Reducer.MIN: _min,
    Reducer.FMAX: _fmax,
    Reducer.FMIN: _fmin,
}
