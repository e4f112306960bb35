"""Scalar expressions: the body of a stage.

    Expr  = Const(value)
          | Load(tensor, index: Affine…)
          | Unary(op, a)
          | Binary(op, a, b)
          | Compare(op, a, b)                 truth value, only as the condition of Select
          | Select(cond, a, b)                both branches may be evaluated
          | Within(conds: Affine…, a, b)      a where every condition is >= 0, b elsewhere; a's loads are
                                              out of bounds elsewhere and must not be evaluated there

Nodes are frozen and compared by value. All values in a stage have the stage's compute type.
Functions of the language that are not listed (relu, gelu, softmax …) are written with these nodes.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tunesmith.ir.affine import Affine

__all__ = [
    "Binary",
    "BinaryOp",
    "Compare",
    "CompareOp",
    "Const",
    "Expr",
    "Load",
    "Reducer",
    "Select",
    "Unary",
    "UnaryOp",
    "Within",
    "children",
    "loads",
    "rebuild",
    "substitute",
    "transform_loads",
    "walk",
]


class UnaryOp(StrEnum):
    NEG = "neg"
    ABS = "abs"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    EXP2 = "exp2"
    LOG = "log"
    LOG2 = "log2"
    LOG10 = "log10"
    SIN = "sin"
    COS = "cos"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"


class BinaryOp(StrEnum):
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAX = "max"
    MIN = "min"
    POW = "pow"


class CompareOp(StrEnum):
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    EQ = "eq"
    NE = "ne"


class Reducer(StrEnum):
    """How values of the reduce axes are joined. ``max`` and ``min`` propagate NaN, ``fmax`` and ``fmin`` pass
    over it, as NumPy does; of nothing but NaN the latter make their identities."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    FMAX = "fmax"
    FMIN = "fmin"
    PROD = "prod"

    @property
    def identity(self) -> float:
        return _IDENTITY[self]


_IDENTITY = {
    Reducer.SUM: 0.0, Reducer.PROD: 1.0, Reducer.MAX: -math.inf, Reducer.MIN: math.inf,
    Reducer.FMAX: -math.inf, Reducer.FMIN: math.inf,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Const:
    value: float


@dataclass(frozen=True, slots=True)
class Load:
    tensor: str
    index: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    a: "Expr"


@dataclass(frozen=True, slots=True)
class Binary:
    op: BinaryOp
    a: "Expr"
    b: "Expr"


@dataclass(frozen=True, slots=True)
class Compare:
    op: CompareOp
    a: "Expr"
    b: "Expr"


@dataclass(frozen=True, slots=True)
class Select:
    cond: Compare
    a: "Expr"
    b: "Expr"


@dataclass(frozen=True, slots=True)
class Within:
    conds: tuple[Affine, ...]
    a: "Expr"
    b: "Expr"


Expr: TypeAlias = Const | Load | Unary | Binary | Compare | Select | Within


def children(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Unary(_, a):
            return (a,)
        case Binary(_, a, b) | Compare(_, a, b) | Within(_, a, b):
            return (a, b)
        case Select(c, a, b):
            return (c, a, b)
        case _:
            return ()


def rebuild(e: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same node over other children."""
    match e:
        case Unary(op, _):
            return Unary(op, *parts)
        case Binary(op, _, _):
            return Binary(op, *parts)
        case Compare(op, _, _):
            return Compare(op, *parts)
        case Within(conds, _, _):
            return Within(conds, *parts)
        case Select():
            cond, a, b = parts
            assert isinstance(cond, Compare)
            return Select(cond, a, b)
        case _:
            return e


def walk(e: Expr) -> Iterator[Expr]:
    """Every node, parents first."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def loads(e: Expr) -> tuple[Load, ...]:
    return tuple(n for n in walk(e) if isinstance(n, Load))


def substitute(e: Expr, values: Mapping[str, Affine]) -> Expr:
    """Replace index variables everywhere in the expression."""
    match e:
        case Load(tensor, index):
            return Load(tensor, tuple(i.substitute(values) for i in index))
        case Within(conds, a, b):
            return Within(
                tuple(c.substitute(values) for c in conds), substitute(a, values), substitute(b, values)
            )
        case _:
            return rebuild(e, tuple(substitute(c, values) for c in children(e)))


def transform_loads(e: Expr, f: Callable[[Load], Expr]) -> Expr:
    """Replace every load by ``f(load)``."""
    if isinstance(e, Load):
        return f(e)
    return rebuild(e, tuple(transform_loads(c, f) for c in children(e)))
