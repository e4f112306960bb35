"""The error function."""

from tunesmith.codegen.exponentials import exp
from tunesmith.codegen.lanes import Lanes
from tunesmith.ir.dtypes import DType

__all__ = ["erf"]

_ERF_BOUND = 3.95  # erf rounds to 1 in f32 just below
# Scaled so that the quotient at 0 is exact to 2e-8, then rounded to the f32 values that do best together.
_ERF_TOP = (
    1.6114592552185059, 0.2735579013824463, 0.0755125880241394, 0.005438563413918018,
    0.00040656907367520034, 2.893227019740152e-06,
)  # fmt: skip
_ERF_BOTTOM = (
    1.4281185865402222, 0.7184730172157288, 0.16360528767108917, 0.021500568836927414,
    0.0016719488194212317, 5.402825991041027e-05,
)  # fmt: skip
_ERF_SMALL = (
    1.1283791670955126, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777,
    0.0052239776071164225, -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05,
    1.6447424703317362e-06, -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10,
)  # fmt: skip
_ERFC_CENTRE, _ERFC_SCALE = 0.22916666666666666, 9.6  # 1 / (x + 2) on [1, 6], mapped to [-1, 1]
_ERFC = (
    0.2214295402299318, 0.16189356804102495, 0.038560570425182426, 0.005588816281841403,
    0.00019713917772795885, -8.07922042879663e-05, -7.340517938287998e-06, 1.9795619759276e-06,
    1.6349937383405805e-07, -7.005371793736792e-08, -5.886053299221601e-10, 2.625007492297143e-09,
    -2.68698518348558e-10, -7.468711818050684e-11, 2.2135736614933752e-11, 4.775776110782188e-13,
    -9.369456032869593e-13,
)  # fmt: skip


def erf(m: Lanes, x: str) -> str:
    return _short(m, x) if m.dtype is DType.F32 else _long(m, x)


def _short(m: Lanes, x: str) -> str:
    x = m.lower(m.raise_(x, -_ERF_BOUND), _ERF_BOUND)
    u = m.binary("fmul", x, x)
    top = m.binary("fmul", x, m.polynomial(u, _ERF_TOP))
    value = m.binary("fdiv", top, m.polynomial(u, _ERF_BOTTOM))
    return m.lower(m.raise_(value, -1.0), 1.0)


def _long(m: Lanes, x: str) -> str:
    size = m.lower(m.call("fabs", x), 6.0)
    square = m.binary("fmul", size, size)
    small = m.binary("fmul", x, m.polynomial(m.binary("fmul", x, x), _ERF_SMALL))
    t = m.binary("fdiv", m.const(_ERFC_SCALE), m.binary("fadd", size, m.const(2.0)))
    t = m.binary("fsub", t, m.const(_ERFC_CENTRE * _ERFC_SCALE))
    complement = m.binary("fmul", exp(m, m.neg(square)), m.polynomial(t, _ERFC))
    large = m.call("copysign", m.binary("fsub", m.const(1.0), complement), x)
    return m.select(m.compare("ogt", size, m.const(1.0)), large, small)
