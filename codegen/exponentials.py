"""exp, exp2 and what is made of them: tanh and the logistic function.

The argument is split into an integer multiple of log 2 and a rest, the rest goes through a polynomial, the
integer into the exponent. Arguments whose results are not normal numbers take a slower path, except with
AVX-512, which scales by any power of two in one instruction.
"""

from collections.abc import Mapping

from tunesmith.codegen.lanes import BIAS, MAGIC, Lanes
from tunesmith.ir.dtypes import DType

__all__ = ["LN2_HI", "LN2_LO", "exp", "exp2", "exp2_of_parts", "sigmoid", "tanh"]

LN2_HI = {DType.F32: 0.693359375, DType.F64: 0.6931471803691238}
"""log 2 in two parts; products of the first with exponents are exact."""
LN2_LO = {DType.F32: -2.12194440e-4, DType.F64: 1.9082149292705877e-10}

_LOG2E = 1.4426950408889634
_NORMAL = {DType.F32: 87.0, DType.F64: 708.0}  # results of exp are normal numbers below
_RANGE = {DType.F32: (-104.0, 89.0), DType.F64: (-746.0, 710.0)}
_NORMAL2 = {DType.F32: 125.0, DType.F64: 1021.0}
_RANGE2 = {DType.F32: (-151.0, 129.0), DType.F64: (-1076.0, 1025.0)}
_SHORT = (
    1.0, 0.999999463558197, 0.49999135732650757, 0.1666812151670456, 0.04189891368150711,
    0.008265920914709568,
)  # fmt: skip
_EXPM1 = {  # (exp(r) - 1 - r) / r**2
    DType.F32: (0.5, 0.16666576989698775, 0.041666554617204574, 0.008363179052722578, 0.0013926183587713494),
    DType.F64: (
        0.5, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062, 0.0013888888917213717,
        0.00019841269863053618, 2.4801521295954376e-05, 2.7557268459997064e-06, 2.7620088445409746e-07,
        2.510038549551032e-08,
    ),
}  # fmt: skip
_EXP2 = {  # (2**r - 1) / r
    DType.F32: (
        0.6931471880352003, 0.24022650760645808, 0.05550357071152507, 0.009618082519990467,
        0.0013390886332106697, 0.0001545318282995974,
    ),
    DType.F64: (
        0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606854,
        0.0013333558146416916, 0.00015403530441794136, 1.525273382986708e-05, 1.3215442552522291e-06,
        1.0178062426976924e-07, 7.072593027878997e-09, 4.4549643712692967e-10,
    ),
}  # fmt: skip
_TANH_BOUND = {DType.F32: 9.1, DType.F64: 19.1}  # tanh rounds to 1 beyond


def exp(m: Lanes, x: str, short: bool = True) -> str:
    """``short``: with one term less than full accuracy would need, in f32."""
    if m.scales:
        n, r = _reduce(m, _bounded(m, x, _RANGE))
        return m.scaled_any(_exp_of_rest(m, r, short), _whole(m, n))
    near = m.compare("olt", m.call("fabs", x), m.const(_NORMAL[m.dtype]))
    return m.usually(near, lambda: _exp_near(m, x, short), lambda: _exp_far(m, x, short))


def _exp_near(m: Lanes, x: str, short: bool) -> str:
    n, r = _reduce(m, x)
    return m.scaled(_exp_of_rest(m, r, short), m.bits(n))


def _exp_far(m: Lanes, x: str, short: bool) -> str:
    n, r = _reduce(m, _bounded(m, x, _RANGE))
    return _scaled_twice(m, _exp_of_rest(m, r, short), n)


def _bounded(m: Lanes, x: str, bounds: Mapping[DType, tuple[float, float]]) -> str:
    lo, hi = bounds[m.dtype]
    return m.lower(m.raise_(x, lo), hi)


def _whole(m: Lanes, shifted: str) -> str:
    """The integer in the low bits of a float, as a float."""
    return m.binary("fsub", shifted, m.const(MAGIC[m.dtype]))


def _reduce(m: Lanes, x: str, bias: int = 0) -> tuple[str, str]:
    """n + bias in the low bits of a float, and r, where x = n log 2 + r."""
    magic = m.const(MAGIC[m.dtype] + bias)
    shifted = m.fma(x, m.const(_LOG2E), magic)
    n = m.binary("fsub", shifted, magic)
    r = m.fma(n, m.const(-LN2_HI[m.dtype]), x)
    return shifted, m.fma(n, m.const(-LN2_LO[m.dtype]), r)


def _exp_of_rest(m: Lanes, r: str, short: bool = False) -> str:
    if m.dtype is DType.F32:
        return m.polynomial(r, _SHORT if short else (1.0, 1.0, *_EXPM1[m.dtype]))
    return m.binary("fadd", _expm1_of_rest(m, r), m.const(1.0))


def _expm1_of_rest(m: Lanes, r: str) -> str:
    return m.fma(m.binary("fmul", r, r), m.polynomial(r, _EXPM1[m.dtype]), r)


def _scaled_twice(m: Lanes, value: str, shifted: str) -> str:
    """value * 2**n in two factors, as n itself may be beyond the exponent; n is as ``_reduce`` gives it."""
    n = m.int_binary("sub", m.bits(shifted), m.bits(m.const(MAGIC[m.dtype])))
    half = m.int_binary("ashr", n, m.integer(1))
    for part in (half, m.int_binary("sub", n, half)):
        biased = m.int_binary("add", part, m.integer(BIAS[m.dtype]))
        value = m.binary("fmul", value, m.from_bits(m.to_exponent(biased)))
    return value


def exp2(m: Lanes, x: str) -> str:
    if m.scales:
        n, value = _exp2_of_rest(m, _bounded(m, x, _RANGE2))
        return m.scaled_any(value, _whole(m, n))
    near = m.compare("olt", m.call("fabs", x), m.const(_NORMAL2[m.dtype]))
    return m.usually(near, lambda: _exp2_near(m, x), lambda: _exp2_far(m, x))


def _exp2_near(m: Lanes, x: str) -> str:
    n, value = _exp2_of_rest(m, x)
    return m.scaled(value, m.bits(n))


def exp2_of_parts(m: Lanes, high: str, low: str) -> str:
    """2**(high + low), where that is a normal number."""
    n, value = _exp2_of_rest(m, m.binary("fadd", high, low), (high, low))
    return m.scaled(value, m.bits(n))


def _exp2_of_rest(m: Lanes, x: str, parts: tuple[str, str] | None = None) -> tuple[str, str]:
    """n in the low bits of a float, and 2**(x - n); ``parts`` add up to x more exactly than x does."""
    magic = m.const(MAGIC[m.dtype])
    shifted = m.binary("fadd", x, magic)
    n = m.binary("fsub", shifted, magic)
    high, low = parts or (x, None)
    r = m.binary("fsub", high, n)
    r = m.binary("fadd", r, low) if low else r
    return shifted, m.polynomial(r, (1.0, *_EXP2[m.dtype]))


def _exp2_far(m: Lanes, x: str) -> str:
    n, value = _exp2_of_rest(m, _bounded(m, x, _RANGE2))
    return _scaled_twice(m, value, n)


def tanh(m: Lanes, x: str) -> str:
    """expm1(2x) / (expm1(2x) + 2), whose relative error stays small near 0."""
    bound = _TANH_BOUND[m.dtype]
    x = m.lower(m.raise_(x, -bound), bound)
    n, r = _reduce(m, m.binary("fadd", x, x), BIAS[m.dtype])
    scale = m.from_bits(m.to_exponent(m.bits(n)))
    em1 = m.fma(scale, _expm1_of_rest(m, r), m.binary("fsub", scale, m.const(1.0)))
    return m.binary("fdiv", em1, m.binary("fadd", em1, m.const(2.0)))


def sigmoid(m: Lanes, x: str) -> str:
    """From exp(-|x|), mirrored."""
    e = exp(m, m.neg(m.call("fabs", x)), short=False)
    top = m.select(m.compare("olt", x, m.const(0.0)), e, m.const(1.0))
    return m.binary("fdiv", top, m.binary("fadd", e, m.const(1.0)))
