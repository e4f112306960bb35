"""sin and cos: the argument less a multiple of pi/2, then one polynomial each."""

from tunesmith.codegen.lanes import MAGIC, Lanes
from tunesmith.ir.dtypes import DType

__all__ = ["cos", "sin"]

_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = {  # in parts; products of all but the last with multiples up to _MOST are exact
    DType.F32: (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5633440682570896e-12),
    DType.F64: (1.5707963267923333, 2.5633441515839558e-12, 1.0562999066987428e-23),
}
_MOST = {DType.F32: 1 << 12, DType.F64: 1 << 15}
_SIN = {  # (sin(r) - r) / r**3 by r**2
    DType.F32: (-0.16666664656310706, 0.008332747104372895, -0.000195876390357926),
    DType.F64: (
        -0.16666666666666666, 0.008333333333330936, -0.00019841269836740527, 2.7557316093196066e-06,
        -2.5051129895962807e-08, 1.5917988944318716e-10,
    ),
}  # fmt: skip
_COS = {  # (cos(r) - 1 + r**2 / 2) / r**4 by r**2
    DType.F32: (0.04166666465348729, -0.0013888301867270142, 2.4547689709382208e-05),
    DType.F64: (
        0.041666666666666664, -0.0013888888888887389, 2.48015872987544e-05, -2.7557317265876615e-07,
        2.087614504910828e-09, -1.1382544623404291e-11,
    ),
}  # fmt: skip


def sin(m: Lanes, x: str) -> str:
    size = m.call("fabs", x)

    def near() -> str:
        value, sign = _turned(m, size, 0)
        return _signed(m, value, m.int_binary("xor", sign, m.bits(x)))  # keeps -0

    return m.usually(_is_near(m, size), near, lambda: m.call("sin", x), agree=False)


def cos(m: Lanes, x: str) -> str:
    size = m.call("fabs", x)
    return m.usually(
        _is_near(m, size), lambda: _signed(m, *_turned(m, size, 1)), lambda: m.call("cos", x), agree=False
    )


def _is_near(m: Lanes, size: str) -> str:
    """Beyond, multiples of pi/2 need more digits than there are parts: the C library has them."""
    return m.compare("olt", size, m.const((_MOST[m.dtype] - 1) / _TWO_OVER_PI))


def _signed(m: Lanes, value: str, sign: str) -> str:
    return m.from_bits(m.int_binary("xor", m.bits(value), m.sign_bit(sign)))


def _turned(m: Lanes, x: str, quarters: int) -> tuple[str, str]:
    """sin(x + quarters * pi/2) for x >= 0 but for its sign, and the sign as the topmost bit of an integer."""
    magic = m.const(MAGIC[m.dtype])
    shifted = m.fma(x, m.const(_TWO_OVER_PI), magic)
    n = m.binary("fsub", shifted, magic)
    r = x
    for part in _HALF_PI[m.dtype]:
        r = m.fma(n, m.const(-part), r)
    z = m.binary("fmul", r, r)
    sine = m.fma(m.binary("fmul", r, z), m.polynomial(z, _SIN[m.dtype]), r)
    cosine = m.fma(z, m.const(-0.5), m.const(1.0))
    cosine = m.fma(m.binary("fmul", z, z), m.polynomial(z, _COS[m.dtype]), cosine)
    quadrant = m.int_binary("add", m.bits(shifted), m.integer(quarters))
    top = m.dtype.bits - 1
    odd = m.int_compare("slt", m.int_binary("shl", quadrant, m.integer(top)), m.integer(0))
    return m.select(odd, cosine, sine), m.int_binary("shl", quadrant, m.integer(top - 1))
