"""Inlined elementary functions at any vector width.

Each is a polynomial or rational approximation after a range reduction, written with the builder below;
coefficients are weighted least-squares fits (Lawson's iteration) of the named forms against 40-digit values.
Largest errors measured with fused multiply-add, in units in the last place: f32 over every number where the
result varies (a part of them for exp and sigmoid), f64 over a few million. Denormals are included.

    function      f32   f64       method
    exp           2.0   1.2       2**n * P(r),  r = x - n log 2,  |r| <= log(2)/2
    log           0.9   0.9       n log 2 + log(1 + f),  1 + f in [sqrt(1/2), sqrt(2))
    tanh          2.5   2.7       expm1(2x) / (expm1(2x) + 2)
    sigmoid       3.6   2.4       from exp(-|x|), mirrored
    erf           5.8   1.6       f32: x P(x**2) / Q(x**2); f64: x P(x**2) below 1, 1 - exp(-x**2) R(x) above
    rsqrt         1.5   1.5       a square root and a division
    sqrt, abs     correctly rounded

Without it, erf loses one more and the others a fraction. In f32, erf's four roundings in a row make most of
its error. NaN gives NaN, infinities give the limits; tanh(-0) is +0, the other signs of zero are kept.
"""

from dataclasses import dataclass

from tunesmith.codegen.text import Function, Value, vector_type
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import UnaryOp

__all__ = ["Math"]

_LOG2E = 1.4426950408889634
_LN2_HI = {DType.F32: 0.693359375, DType.F64: 0.6931471803691238}
_LN2_LO = {DType.F32: -2.12194440e-4, DType.F64: 1.9082149292705877e-10}
_MAGIC = {DType.F32: 12582912.0, DType.F64: 6755399441055744.0}  # 1.5 * 2**mantissa: rounds to integer
_MANTISSA = {DType.F32: 23, DType.F64: 52}
_BIAS = {DType.F32: 127, DType.F64: 1023}
_EXP_NORMAL = {DType.F32: 87.0, DType.F64: 708.0}  # results and factors are normal numbers below
_EXP_RANGE = {DType.F32: (-104.0, 89.0), DType.F64: (-746.0, 710.0)}
_EXP32 = (
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
_LOG32 = (
    0.3333333125677136, -0.24999981190018736, 0.20000688102672748, -0.16669150681558328, 0.14251154851313635,
    -0.1239670729325302, 0.11634677230097976, -0.11659887251293319, 0.07332437272272145,
)  # fmt: skip
_LOG64 = (
    0.666666666666667, 0.3999999999989819, 0.28571428626570206, 0.2222221103781659, 0.18182896183483085,
    0.15331487235865734, 0.14619343453512615,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Math:
    """Emits instructions for one element type and width (0: scalar) into a function."""

    f: Function
    dtype: DType
    lanes: int

    @property
    def type(self) -> str:
        return vector_type(self.dtype, self.lanes)

    @property
    def int_type(self) -> str:
        return f"<{self.lanes} x i{self.dtype.bits}>" if self.lanes else f"i{self.dtype.bits}"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}f{self.dtype.bits}" if self.lanes else f"f{self.dtype.bits}"

    # -- plain operations ---------------------------------------------------------------------------------

    def const(self, value: float) -> str:
        return self.f.float_constant(value, self.dtype, self.lanes).name

    def integer(self, value: int) -> str:
        return f"splat (i{self.dtype.bits} {value})" if self.lanes else str(value)

    def binary(self, op: str, a: str, b: str) -> str:
        return self.f.emit(f"{op} {self.type} {a}, {b}")

    def int_binary(self, op: str, a: str, b: str) -> str:
        return self.f.emit(f"{op} {self.int_type} {a}, {b}")

    def call(self, name: str, *args: str, flags: str = "") -> str:
        text = ", ".join(f"{self.type} {a}" for a in args)
        return self.f.emit(f"call {flags}{self.type} @llvm.{name}.{self.suffix}({text})")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("fmuladd", a, b, c)

    def compare(self, op: str, a: str, b: str) -> str:
        return self.f.emit(f"fcmp {op} {self.type} {a}, {b}")

    def select(self, cond: str, a: str, b: str) -> str:
        kind = f"<{self.lanes} x i1>" if self.lanes else "i1"
        return self.f.emit(f"select {kind} {cond}, {self.type} {a}, {self.type} {b}")

    def lower(self, x: str, bound: float) -> str:
        """min(x, bound), NaN kept."""
        return self.select(self.compare("ogt", x, self.const(bound)), self.const(bound), x)

    def raise_(self, x: str, bound: float) -> str:
        """max(x, bound), NaN kept."""
        return self.select(self.compare("olt", x, self.const(bound)), self.const(bound), x)

    def bits(self, x: str) -> str:
        return self.f.emit(f"bitcast {self.type} {x} to {self.int_type}")

    def from_bits(self, x: str) -> str:
        return self.f.emit(f"bitcast {self.int_type} {x} to {self.type}")

    def polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        """Horner's rule; coefficients from the constant up."""
        acc = self.const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            acc = self.fma(acc, x, self.const(c))
        return acc

    # -- functions ----------------------------------------------------------------------------------------

    def apply(self, op: UnaryOp, x: Value) -> Value:
        functions = {
            UnaryOp.NEG: self._neg,
            UnaryOp.ABS: lambda v: self.call("fabs", v),
            UnaryOp.SQRT: lambda v: self.call("sqrt", v),
            UnaryOp.RSQRT: lambda v: self.binary("fdiv", self.const(1.0), self.call("sqrt", v)),
            UnaryOp.EXP: self._exp,
            UnaryOp.LOG: self._log,
            UnaryOp.TANH: self._tanh,
            UnaryOp.SIGMOID: self._sigmoid,
            UnaryOp.ERF: self._erf,
        }
        return Value(functions[op](x.name), x.lanes)

    def _neg(self, x: str) -> str:
        return self.f.emit(f"fneg {self.type} {x}")

    def _reduce_exp(self, x: str, bias: int = 0) -> tuple[str, str]:
        """n + bias in the low bits of a float, and r, where x = n log 2 + r."""
        magic = self.const(_MAGIC[self.dtype] + bias)
        shifted = self.fma(x, self.const(_LOG2E), magic)
        n = self.binary("fsub", shifted, magic)
        r = self.fma(n, self.const(-_LN2_HI[self.dtype]), x)
        return shifted, self.fma(n, self.const(-_LN2_LO[self.dtype]), r)

    def _to_exponent(self, n: str) -> str:
        """The low bits of an integer at the place of the exponent."""
        return self.int_binary("shl", n, self.integer(_MANTISSA[self.dtype]))

    def _exp(self, x: str) -> str:
        """Beyond the range of normal results (and for NaN) another, slower path is taken by a branch."""
        f = self.f
        near = self.compare("olt", self.call("fabs", x), self.const(_EXP_NORMAL[self.dtype]))
        if self.lanes:
            near = f.emit(f"call i1 @llvm.vector.reduce.and.v{self.lanes}i1(<{self.lanes} x i1> {near})")
        fast, slow, done = (f.fresh_label(name) for name in ("exp", "expfar", "expdone"))
        f.line(f"br i1 {near}, label %{fast}, label %{slow}, !prof !1")
        arms = []
        for label, path in ((fast, self._exp_near), (slow, self._exp_far)):
            f.start(label)
            arms.append(f"[ {path(x)}, %{f.label} ]")
            f.branch(done)
        f.start(done)
        return f.emit(f"phi {self.type} {', '.join(arms)}")

    def _exp_near(self, x: str) -> str:
        """n is added to the exponent: an integer instruction, where a multiplication would have to wait for
        the pipes that the polynomial keeps busy."""
        shifted, r = self._reduce_exp(x)
        value = self.bits(self._exp_of_rest(r))
        return self.from_bits(self.int_binary("add", value, self._to_exponent(self.bits(shifted))))

    def _exp_of_rest(self, r: str) -> str:
        if self.dtype is DType.F32:
            return self.polynomial(r, _EXP32)
        tail = self.fma(self.binary("fmul", r, r), self.polynomial(r, _EXPM1[self.dtype]), r)
        return self.binary("fadd", tail, self.const(1.0))  # one rounding less, one instruction more

    def _exp_far(self, x: str) -> str:
        lo, hi = _EXP_RANGE[self.dtype]
        shifted, r = self._reduce_exp(self.lower(self.raise_(x, lo), hi))
        value = self._exp_of_rest(r)
        n = self.int_binary("sub", self.bits(shifted), self.bits(self.const(_MAGIC[self.dtype])))
        half = self.int_binary("ashr", n, self.integer(1))  # two factors: n itself is beyond the exponent
        for part in (half, self.int_binary("sub", n, half)):
            biased = self.int_binary("add", part, self.integer(_BIAS[self.dtype]))
            value = self.binary("fmul", value, self.from_bits(self._to_exponent(biased)))
        return value

    def _expm1_small(self, x: str) -> str:
        """exp(x) - 1 for |x| below 40; relative error stays small near 0."""
        shifted, r = self._reduce_exp(x, _BIAS[self.dtype])
        scale = self.from_bits(self._to_exponent(self.bits(shifted)))
        tail = self.fma(self.binary("fmul", r, r), self.polynomial(r, _EXPM1[self.dtype]), r)
        return self.fma(scale, tail, self.binary("fsub", scale, self.const(1.0)))

    def _tanh(self, x: str) -> str:
        bound = 9.1 if self.dtype is DType.F32 else 19.1  # tanh rounds to 1 beyond
        x = self.lower(self.raise_(x, -bound), bound)
        em1 = self._expm1_small(self.binary("fadd", x, x))
        return self.binary("fdiv", em1, self.binary("fadd", em1, self.const(2.0)))

    def _sigmoid(self, x: str) -> str:
        e = self._exp(self._neg(self.call("fabs", x)))
        top = self.select(self.compare("olt", x, self.const(0.0)), e, self.const(1.0))
        return self.binary("fdiv", top, self.binary("fadd", e, self.const(1.0)))

    def _erf(self, x: str) -> str:
        if self.dtype is DType.F32:
            x = self.lower(self.raise_(x, -_ERF_BOUND), _ERF_BOUND)
            u = self.binary("fmul", x, x)
            top = self.binary("fmul", x, self.polynomial(u, _ERF_TOP))
            value = self.binary("fdiv", top, self.polynomial(u, _ERF_BOTTOM))
            return self.lower(self.raise_(value, -1.0), 1.0)
        size = self.lower(self.call("fabs", x), 6.0)
        square = self.binary("fmul", size, size)
        small = self.binary("fmul", x, self.polynomial(self.binary("fmul", x, x), _ERF_SMALL))
        t = self.binary("fdiv", self.const(_ERFC_SCALE), self.binary("fadd", size, self.const(2.0)))
        t = self.binary("fsub", t, self.const(_ERFC_CENTRE * _ERFC_SCALE))
        complement = self.binary("fmul", self._exp(self._neg(square)), self.polynomial(t, _ERFC))
        large = self.call("copysign", self.binary("fsub", self.const(1.0), complement), x)
        return self.select(self.compare("ogt", size, self.const(1.0)), large, small)

    def _log(self, x: str) -> str:
        """Denormals are scaled up first; the exponent is taken so that 1 + f is near 1."""
        bits, bias = _MANTISSA[self.dtype], _BIAS[self.dtype]
        tiny = self.compare("olt", x, self.const(2.0 ** (2 - bias)))
        scaled = self.select(tiny, self.binary("fmul", x, self.const(2.0 ** (bits + 2))), x)
        offset = self.select(tiny, self.const(float(-bits - 2)), self.const(0.0))
        root_half = self.bits(self.const(0.5**0.5))
        raw = self.int_binary("sub", self.bits(scaled), root_half)
        exponent = self.int_binary("ashr", raw, self.integer(bits))
        mantissa = self.int_binary(
            "sub", self.bits(scaled), self.int_binary("shl", exponent, self.integer(bits))
        )
        n = self.f.emit(f"sitofp {self.int_type} {exponent} to {self.type}")
        n = self.binary("fadd", n, offset)
        f = self.binary("fsub", self.from_bits(mantissa), self.const(1.0))
        value = self._log1p(f, n)
        value = self.select(self.compare("oeq", x, self.const(float("inf"))), x, value)
        value = self.select(self.compare("oeq", x, self.const(0.0)), self.const(float("-inf")), value)
        return self.select(self.compare("ult", x, self.const(0.0)), self.const(float("nan")), value)

    def _log1p(self, f: str, n: str) -> str:
        """n log 2 + log(1 + f) with the small terms added first."""
        square = self.binary("fmul", f, f)
        if self.dtype is DType.F32:
            tail = self.binary("fmul", self.binary("fmul", square, f), self.polynomial(f, _LOG32))
            tail = self.fma(n, self.const(_LN2_LO[self.dtype]), tail)
            tail = self.fma(square, self.const(-0.5), tail)
        else:
            s = self.binary("fdiv", f, self.binary("fadd", f, self.const(2.0)))
            z = self.binary("fmul", s, s)
            half = self.binary("fmul", square, self.const(0.5))
            r = self.binary("fmul", z, self.polynomial(z, _LOG64))
            tail = self.fma(
                s, self.binary("fadd", half, r), self.binary("fmul", n, self.const(_LN2_LO[self.dtype]))
            )
            tail = self.binary("fsub", tail, half)
        return self.fma(n, self.const(_LN2_HI[self.dtype]), self.binary("fadd", f, tail))
