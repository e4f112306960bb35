"""Elementary functions, inlined at any vector width.

Each is a polynomial or rational approximation after a range reduction; coefficients are weighted
least-squares fits (Lawson's iteration) or interpolations at Chebyshev's nodes against values of 40 digits and
more. docs/functions.md has the largest errors.
NaN gives NaN, infinities give the limits; tanh(-0) is +0, the other signs of zero are kept.
"""

from collections.abc import Callable

from tunesmith.codegen.errorfunction import erf
from tunesmith.codegen.exponentials import exp, exp2, sigmoid, tanh
from tunesmith.codegen.lanes import Lanes
from tunesmith.codegen.logarithms import log, log2, log10, power
from tunesmith.codegen.text import Value
from tunesmith.codegen.trigonometry import cos, sin
from tunesmith.ir.expr import UnaryOp

__all__ = ["Math"]

_FUNCTIONS: dict[UnaryOp, Callable[[Lanes, str], str]] = {
    UnaryOp.NEG: Lanes.neg,
    UnaryOp.ABS: lambda m, x: m.call("fabs", x),
    UnaryOp.SQRT: lambda m, x: m.call("sqrt", x),
    UnaryOp.RSQRT: lambda m, x: m.binary("fdiv", m.const(1.0), m.call("sqrt", x)),
    UnaryOp.EXP: exp,
    UnaryOp.EXP2: exp2,
    UnaryOp.LOG: log,
    UnaryOp.LOG2: log2,
    UnaryOp.LOG10: log10,
    UnaryOp.SIN: sin,
    UnaryOp.COS: cos,
    UnaryOp.TANH: tanh,
    UnaryOp.SIGMOID: sigmoid,
    UnaryOp.ERF: erf,
}


class Math(Lanes):
    """The language's functions on vectors."""

    __slots__ = ()

    def apply(self, op: UnaryOp, x: Value) -> Value:
        return Value(_FUNCTIONS[op](self, x.name), x.lanes)

    def power(self, x: str, y: Value) -> str:
        """x**y; by multiplications where y is a small number known now."""
        match y.literal:
            case -1.0:
                return self.binary("fdiv", self.const(1.0), x)
            case 0.0:
                return self.const(1.0)
            case 1.0:
                return x
            case 2.0:
                return self.binary("fmul", x, x)
            case 3.0:
                return self.binary("fmul", self.binary("fmul", x, x), x)
            case 4.0:
                square = self.binary("fmul", x, x)
                return self.binary("fmul", square, square)
            case _:
                return power(self, x, y.name)
