"""Logarithms to three bases, and powers, which take a logarithm of more than the type's accuracy.

Numbers are split as 2**n * m with sqrt(1/2) <= m < sqrt(2), so that logarithms near 0 lose nothing.
"""

from collections.abc import Callable

from tunesmith.codegen.exponentials import LN2_HI, LN2_LO, exp2_of_parts
from tunesmith.codegen.lanes import BIAS, MAGIC, MANTISSA, Lanes
from tunesmith.ir.dtypes import DType

__all__ = ["log", "log10", "log2", "power"]

_LOG32 = (  # (log(1 + f) - f + f**2 / 2) / f**3
    0.3333333125677136, -0.24999981190018736, 0.20000688102672748, -0.16669150681558328, 0.14251154851313635,
    -0.1239670729325302, 0.11634677230097976, -0.11659887251293319, 0.07332437272272145,
)  # fmt: skip
_LOG64 = (
    0.666666666666667, 0.3999999999989819, 0.28571428626570206, 0.2222221103781659, 0.18182896183483085,
    0.15331487235865734, 0.14619343453512615,
)  # fmt: skip
_LOG2_E = {
    DType.F32: (1.4426950216293335, 1.925963033500011e-08),
    DType.F64: (1.4426950408889634, 2.0355273740931033e-17),
}
_LOG10_E = {
    DType.F32: (0.4342944622039795, 1.9699271547324315e-08),
    DType.F64: (0.4342944819032518, 1.098319650216765e-17),
}
_LOG10_2 = {  # products of the first with exponents are exact
    DType.F32: (0.301025390625, 4.605039066518657e-06),
    DType.F64: (0.30102999566361177, 3.694239077158931e-13),
}
_ATANH = {  # (3 atanh(s) / s - 3 - z) / z**2, where z = s**2
    DType.F32: (0.6000002271430598, 0.4284330071162725, 0.3457478005539527),
    DType.F64: (
        0.6, 0.42857142857144065, 0.3333333333247392, 0.2727272750533399, 0.23076892204158003,
        0.20002220060530518, 0.17559006192025226, 0.1758840680471312,
    ),
}  # fmt: skip
_TWO_THIRDS_LOG2_E = {  # the first with half of the bits
    DType.F32: (0.961669921875, 0.00012677205086220056),
    DType.F64: (0.9617966860532761, 7.872699542894897e-09),
}
_POWER_NORMAL = {DType.F32: 125.0, DType.F64: 1021.0}  # powers of two that are normal numbers


def _is_normal(m: Lanes, bits: str) -> str:
    """Whether it is a positive normal number."""
    least = 1 << MANTISSA[m.dtype]
    span = (2 * BIAS[m.dtype]) << MANTISSA[m.dtype]
    return m.int_compare("ult", m.int_binary("sub", bits, m.integer(least)), m.integer(span))


def _split(m: Lanes, bits: str) -> tuple[str, str]:
    """n and m of a positive normal number 2**n * m."""
    root_half = m.bits(m.const(0.5**0.5))
    raw = m.int_binary("sub", bits, root_half)
    exponent = m.int_binary("ashr", raw, m.integer(MANTISSA[m.dtype]))
    mantissa = m.from_bits(m.int_binary("sub", bits, m.to_exponent(exponent)))
    return m.f.emit(f"sitofp {m.int_type} {exponent} to {m.type}"), mantissa


def log(m: Lanes, x: str) -> str:
    return _logarithm(m, x, _natural)


def log2(m: Lanes, x: str) -> str:
    return _logarithm(m, x, _binary)


def log10(m: Lanes, x: str) -> str:
    return _logarithm(m, x, _decimal)


Base = Callable[[Lanes, str, str], str]
"""From n and f, the logarithm of 2**n * (1 + f)."""


def _logarithm(m: Lanes, x: str, base: Base) -> str:
    bits = m.bits(x)

    def near() -> str:
        n, mantissa = _split(m, bits)
        return base(m, n, m.binary("fsub", mantissa, m.const(1.0)))

    return m.usually(_is_normal(m, bits), near, lambda: _logarithm_far(m, x, base))


def _logarithm_far(m: Lanes, x: str, base: Base) -> str:
    """Any number: denormals are scaled up first."""
    shift = MANTISSA[m.dtype] + 2
    tiny = m.compare("olt", x, m.const(2.0 ** (2 - BIAS[m.dtype])))
    scaled = m.select(tiny, m.binary("fmul", x, m.const(2.0**shift)), x)
    n, mantissa = _split(m, m.bits(scaled))
    n = m.binary("fadd", n, m.select(tiny, m.const(float(-shift)), m.const(0.0)))
    value = base(m, n, m.binary("fsub", mantissa, m.const(1.0)))
    value = m.select(m.compare("oeq", x, m.const(float("inf"))), x, value)
    value = m.select(m.compare("oeq", x, m.const(0.0)), m.const(float("-inf")), value)
    return m.select(m.compare("ult", x, m.const(0.0)), m.const(float("nan")), value)


def _tail(m: Lanes, f: str, n: str | None = None) -> str:
    """log(1 + f) - f [+ n times the low part of log 2], the small terms first."""
    square = m.binary("fmul", f, f)
    low = m.const(LN2_LO[m.dtype])
    if m.dtype is DType.F32:
        tail = m.binary("fmul", m.binary("fmul", square, f), m.polynomial(f, _LOG32))
        tail = m.fma(n, low, tail) if n else tail
        return m.fma(square, m.const(-0.5), tail)
    s = m.binary("fdiv", f, m.binary("fadd", f, m.const(2.0)))
    z = m.binary("fmul", s, s)
    half = m.binary("fmul", square, m.const(0.5))
    rest = m.binary("fadd", half, m.binary("fmul", z, m.polynomial(z, _LOG64)))
    tail = m.fma(s, rest, m.binary("fmul", n, low)) if n else m.binary("fmul", s, rest)
    return m.binary("fsub", tail, half)


def _natural(m: Lanes, n: str, f: str) -> str:
    return m.fma(n, m.const(LN2_HI[m.dtype]), m.binary("fadd", f, _tail(m, f, n)))


def _binary(m: Lanes, n: str, f: str) -> str:
    high, low = _LOG2_E[m.dtype]
    small = m.fma(_tail(m, f), m.const(high), m.binary("fmul", f, m.const(low)))
    return m.binary("fadd", n, m.fma(f, m.const(high), small))


def _decimal(m: Lanes, n: str, f: str) -> str:
    high, low = _LOG10_E[m.dtype]
    n_high, n_low = _LOG10_2[m.dtype]
    small = m.fma(_tail(m, f), m.const(high), m.binary("fmul", f, m.const(low)))
    small = m.fma(n, m.const(n_low), small)
    return m.fma(n, m.const(n_high), m.fma(f, m.const(high), small))


def power(m: Lanes, x: str, y: str) -> str:
    """x**y as 2**(y log2 |x|), and its sign. The C library's pow where a lane has anything but a normal x,
    an integer y if x is negative, and a normal result."""
    size = m.call("fabs", x)
    shifted = m.binary("fadd", y, m.const(MAGIC[m.dtype]))
    whole = m.compare("oeq", m.binary("fsub", shifted, m.const(MAGIC[m.dtype])), y)
    exact = 2.0 ** (MANTISSA[m.dtype] - 1)  # integers up to here are shifted to their places
    whole = m.both(whole, m.compare("olt", m.call("fabs", y), m.const(exact)))
    odd = m.int_binary("shl", m.bits(shifted), m.integer(m.dtype.bits - 1))
    high, low = _accurate_log2(m, m.bits(size))
    half = m.half(y)
    rest = m.fma(m.binary("fsub", y, half), high, m.binary("fmul", y, low))
    product = m.binary("fmul", half, high)
    exponent = m.binary("fadd", product, rest)
    normal = m.both(
        _is_normal(m, m.bits(size)),
        m.compare("olt", m.call("fabs", exponent), m.const(_POWER_NORMAL[m.dtype])),
    )
    real = m.either(whole, m.compare("ogt", x, m.const(0.0)))

    def near() -> str:
        value = m.bits(exp2_of_parts(m, product, rest))
        return m.from_bits(m.int_binary("xor", value, m.int_binary("and", odd, m.bits(x))))

    return m.usually(m.both(normal, real), near, lambda: m.call("pow", x, y), agree=False)


def _accurate_log2(m: Lanes, bits: str) -> tuple[str, str]:
    """log2 of a positive normal number in two parts, the first with half of the significant bits.

    log(1 + f) = 2/3 s (3 + z + z**2 R(z)) with s = f / (2 + f) and z = s**2, where every product that
    matters is one of halves and so exact, with or without fused multiply-add.
    """
    n, x = _split(m, bits)
    f = m.binary("fsub", x, m.const(1.0))
    total = m.binary("fadd", x, m.const(1.0))
    inverse = m.binary("fdiv", m.const(1.0), total)
    total_high = m.half(total)
    total_low = m.binary("fsub", x, m.binary("fsub", total_high, m.const(1.0)))
    s = m.binary("fmul", f, inverse)
    s_high = m.half(s)
    rest = m.fma(m.neg(s_high), total_high, f)
    s_low = m.binary("fmul", m.fma(m.neg(s_high), total_low, rest), inverse)

    z = m.binary("fmul", s, s)
    square = m.binary("fmul", s_high, s_high)
    small = m.binary("fmul", m.binary("fmul", z, z), m.polynomial(z, _ATANH[m.dtype]))
    small = m.fma(s_low, m.binary("fadd", s_high, s), small)
    high = m.half(m.binary("fadd", m.binary("fadd", square, small), m.const(3.0)))
    low = m.binary("fsub", small, m.binary("fsub", m.binary("fsub", high, m.const(3.0)), square))
    high, low = _product(m, s_high, high, m.fma(s_low, high, m.binary("fmul", low, s)))

    scale_high, scale_low = _TWO_THIRDS_LOG2_E[m.dtype]
    low = m.fma(low, m.const(scale_high + scale_low), m.binary("fmul", high, m.const(scale_low)))
    scaled = m.binary("fmul", high, m.const(scale_high))
    top = m.half(m.binary("fadd", n, m.binary("fadd", scaled, low)))
    return top, m.binary("fsub", low, m.binary("fsub", m.binary("fsub", top, n), scaled))


def _product(m: Lanes, a: str, b: str, low: str) -> tuple[str, str]:
    """a * b + low in two parts, the first with half of the bits; so have a and b."""
    product = m.binary("fmul", a, b)
    high = m.half(m.binary("fadd", product, low))
    return high, m.binary("fsub", low, m.binary("fsub", high, product))
