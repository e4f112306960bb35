"""Instructions on vectors of one element type and width: what elementary functions are written with."""

from collections.abc import Callable
from dataclasses import dataclass

from tunesmith.codegen.text import Function, vector_type
from tunesmith.ir.dtypes import DType

__all__ = ["BIAS", "HALF_MASK", "MAGIC", "MANTISSA", "Lanes"]

MAGIC = {DType.F32: 12582912.0, DType.F64: 6755399441055744.0}
"""1.5 * 2**mantissa: a number added to it and taken away again is rounded to an integer."""

MANTISSA = {DType.F32: 23, DType.F64: 52}
BIAS = {DType.F32: 127, DType.F64: 1023}

HALF_MASK = {DType.F32: -(1 << 12), DType.F64: -(1 << 27)}
"""Leaves half of the significant bits, so that products of two are exact."""


@dataclass(frozen=True, slots=True)
class Lanes:
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
    def truth_type(self) -> str:
        return f"<{self.lanes} x i1>" if self.lanes else "i1"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}f{self.dtype.bits}" if self.lanes else f"f{self.dtype.bits}"

    # -- numbers ------------------------------------------------------------------------------------------

    def const(self, value: float) -> str:
        return self.f.float_constant(value, self.dtype, self.lanes).name

    def binary(self, op: str, a: str, b: str) -> str:
        return self.f.emit(f"{op} {self.type} {a}, {b}")

    def call(self, name: str, *args: str, flags: str = "") -> str:
        text = ", ".join(f"{self.type} {a}" for a in args)
        return self.f.emit(f"call {flags}{self.type} @llvm.{name}.{self.suffix}({text})")

    def neg(self, x: str) -> str:
        return self.f.emit(f"fneg {self.type} {x}")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("fmuladd", a, b, c)

    def polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        """Horner's rule; coefficients from the constant up."""
        acc = self.const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            acc = self.fma(acc, x, self.const(c))
        return acc

    def lower(self, x: str, bound: float) -> str:
        """min(x, bound), NaN kept."""
        return self.select(self.compare("ogt", x, self.const(bound)), self.const(bound), x)

    def raise_(self, x: str, bound: float) -> str:
        """max(x, bound), NaN kept."""
        return self.select(self.compare("olt", x, self.const(bound)), self.const(bound), x)

    # -- bits ---------------------------------------------------------------------------------------------

    def integer(self, value: int) -> str:
        return f"splat (i{self.dtype.bits} {value})" if self.lanes else str(value)

    def int_binary(self, op: str, a: str, b: str) -> str:
        return self.f.emit(f"{op} {self.int_type} {a}, {b}")

    def bits(self, x: str) -> str:
        return self.f.emit(f"bitcast {self.type} {x} to {self.int_type}")

    def from_bits(self, x: str) -> str:
        return self.f.emit(f"bitcast {self.int_type} {x} to {self.type}")

    def to_exponent(self, n: str) -> str:
        """The low bits of an integer at the place of the exponent."""
        return self.int_binary("shl", n, self.integer(MANTISSA[self.dtype]))

    def scaled(self, x: str, n: str) -> str:
        """x * 2**n, both it and x normal: an integer instruction, where a multiplication would have to wait
        for the pipes that polynomials keep busy. Only the low bits of the integer n are read."""
        return self.from_bits(self.int_binary("add", self.bits(x), self.to_exponent(n)))

    @property
    def scales(self) -> bool:
        """Whether there is ``scaled_any`` at this width: AVX-512 has an instruction for it."""
        size = self.lanes * self.dtype.size_bytes
        needed = {"avx512f"} if size >= 64 else {"avx512f", "avx512vl"}
        return size >= 16 and size.bit_count() == 1 and needed <= self.f.features

    def scaled_any(self, x: str, n: str) -> str:
        """x * 2**n, rounded once, for any whole n, given as a float."""
        size = self.dtype.size_bytes
        width = min(self.lanes, 64 // size)
        parts = [self._scaled_part(x, n, range(i, i + width)) for i in range(0, self.lanes, width)]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.f.shuffle(a, b, self.dtype, width, range(2 * width)) for a, b in pairs]
            width *= 2
        return parts[0]

    def _scaled_part(self, x: str, n: str, lanes: range) -> str:
        """Of so many lanes as a register holds."""
        width, size = len(lanes), self.dtype.size_bytes
        if width < self.lanes:
            x, n = (self.f.shuffle(value, "poison", self.dtype, self.lanes, lanes) for value in (x, n))
        kind, bits = vector_type(self.dtype, width), 8 * size * width
        name = f"@llvm.x86.avx512.mask.scalef.{'ps' if size == 4 else 'pd'}.{bits}"
        mask, rounding = f"i{max(8, width)} -1", ", i32 4" if bits == 512 else ""
        args = f"{kind} {x}, {kind} {n}, {kind} zeroinitializer, {mask}{rounding}"
        return self.f.emit(f"call {kind} {name}({args})")

    def half(self, x: str) -> str:
        """x without the lower half of its significant bits."""
        return self.from_bits(self.int_binary("and", self.bits(x), self.integer(HALF_MASK[self.dtype])))

    def sign_bit(self, x: str) -> str:
        """The topmost bit of an integer, the others zero."""
        return self.int_binary("and", x, self.integer(-(1 << (self.dtype.bits - 1))))

    # -- choices ------------------------------------------------------------------------------------------

    def compare(self, op: str, a: str, b: str) -> str:
        return self.f.emit(f"fcmp {op} {self.type} {a}, {b}")

    def int_compare(self, op: str, a: str, b: str) -> str:
        return self.f.emit(f"icmp {op} {self.int_type} {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.f.emit(f"and {self.truth_type} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.f.emit(f"or {self.truth_type} {a}, {b}")

    def select(self, cond: str, a: str, b: str) -> str:
        return self.f.emit(f"select {self.truth_type} {cond}, {self.type} {a}, {self.type} {b}")

    def usually(
        self, near: str, fast: Callable[[], str], slow: Callable[[], str], agree: bool = True
    ) -> str:
        """One branch for all lanes: ``fast`` where ``near`` holds in each, ``slow`` elsewhere.

        Paths that do not ``agree`` to the last bit are chosen between lane by lane, so that no lane's result
        depends on the others.
        """
        f, mask = self.f, near
        if self.lanes:
            near = f.emit(f"call i1 @llvm.vector.reduce.and.v{self.lanes}i1({self.truth_type} {near})")
        labels = [f.fresh_label(name) for name in ("near", "far", "joined")]
        f.line(f"br i1 {near}, label %{labels[0]}, label %{labels[1]}, !prof !1")
        arms = []
        for label, path in zip(labels, (fast, slow), strict=False):
            f.start(label)
            value = path()
            if path is slow and not agree and self.lanes:
                value = self.select(mask, fast(), value)
            arms.append(f"[ {value}, %{f.label} ]")
            f.branch(labels[2])
        f.start(labels[2])
        return f.emit(f"phi {self.type} {', '.join(arms)}")
