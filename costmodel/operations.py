"""What one element of a stage takes: operations by kind, and instructions on the arithmetic ports."""

from dataclasses import astuple, dataclass
from functools import lru_cache

from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Reducer, Select, Unary, UnaryOp, Within, children
from tunesmith.ir.program import Stage

__all__ = ["KINDS", "Operations", "instructions", "operations"]

KINDS = ("fma", "add", "mul", "div", "call", "select")

# Instructions on the arithmetic ports, a vector each.
_UNARY = {
    UnaryOp.NEG: 1, UnaryOp.ABS: 1, UnaryOp.SQRT: 10, UnaryOp.RSQRT: 20, UnaryOp.EXP: 18, UnaryOp.EXP2: 16,
    UnaryOp.LOG: 34, UnaryOp.LOG2: 36, UnaryOp.LOG10: 38, UnaryOp.SIN: 30, UnaryOp.COS: 30,
    UnaryOp.TANH: 34, UnaryOp.SIGMOID: 40, UnaryOp.ERF: 30,
}  # fmt: skip
_PLAIN = (UnaryOp.NEG, UnaryOp.ABS)
_ROOTS = (UnaryOp.SQRT, UnaryOp.RSQRT)


@dataclass(frozen=True)
class Operations:
    """``fma``: a multiplication and the addition that takes it; ``add``: additions, subtractions and changes
    of sign; ``div``: divisions and roots; ``call``: elementary functions; ``select``: comparisons, choices,
    minima and maxima."""

    fma: int = 0
    add: int = 0
    mul: int = 0
    div: int = 0
    call: int = 0
    select: int = 0

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@lru_cache(maxsize=256)
def operations(stage: Stage) -> Operations:
    """Of one element: the term, and joining it to the running result."""
    body = stage.terms[1]
    match stage.reducer:
        case None:
            return _of(body)
        case Reducer.SUM if _is_product(body):
            return Operations(fma=1) + _of_children(body)
        case Reducer.SUM:
            return Operations(add=1) + _of(body)
        case Reducer.PROD:
            return Operations(mul=1) + _of(body)
        case _:
            return Operations(select=1) + _of(body)


def _is_product(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op is BinaryOp.MUL


def _of_children(e: Expr) -> Operations:
    return sum((_of(c) for c in children(e)), Operations())


def _of(e: Expr) -> Operations:
    match e:
        case Binary(BinaryOp.ADD, a, b) if _is_product(a) or _is_product(b):
            product, other = (a, b) if _is_product(a) else (b, a)
            return Operations(fma=1) + _of_children(product) + _of(other)
        case _:
            return _own(e) + _of_children(e)


def _own(e: Expr) -> Operations:
    match e:
        case Unary(op, _) if op in _PLAIN:
            return Operations(add=1)
        case Unary(op, _) if op in _ROOTS:
            return Operations(div=1)
        case Unary():
            return Operations(call=1)
        case Binary(BinaryOp.ADD | BinaryOp.SUB, _, _):
            return Operations(add=1)
        case Binary(BinaryOp.MUL, _, _):
            return Operations(mul=1)
        case Binary(BinaryOp.DIV, _, _):
            return Operations(div=1)
        case Binary(BinaryOp.POW, _, b):
            return Operations(mul=1) if isinstance(b, Const) else Operations(call=1)
        case Binary() | Select() | Within():
            return Operations(select=1)
        case _:
            return Operations()


@lru_cache(maxsize=256)
def instructions(stage: Stage | None) -> float:
    """Vector instructions on the arithmetic ports for one vector of a stage; None: a copy."""
    if stage is None:
        return 0.25
    body = stage.terms[1]
    joined = stage.reducer is not None and not _is_product(body)
    return max(_port_instructions(body) + joined, 0.25)


def _port_instructions(e: Expr) -> float:
    own = 0.0
    match e:
        case Unary(op, _):
            own = _UNARY[op]
        case Binary(BinaryOp.DIV, _, _):
            own = 10.0
        case Binary(BinaryOp.POW, _, b):
            own = 2.0 if isinstance(b, Const) else 70.0
        case Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, _, _), _) | Binary(
            BinaryOp.ADD, _, Binary(BinaryOp.MUL, _, _)
        ):
            own = 0.0  # joins the multiplication as an FMA
        case Binary():
            own = 1.0
        case Select():
            own = 2.0
        case _:
            own = 0.0
    return own + sum(_port_instructions(c) for c in children(e))
