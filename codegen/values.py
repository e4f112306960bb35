"""Expressions: scalars where nothing in them depends on the lane, vectors elsewhere."""

from tunesmith.codegen.conditions import Conditions
from tunesmith.codegen.context import Context
from tunesmith.codegen.memory import Memory
from tunesmith.codegen.text import Value, scalar_type, vector_type
from tunesmith.codegen.vecmath import Math
from tunesmith.ir.affine import Affine
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Reducer,
    Select,
    Unary,
    Within,
)

__all__ = ["Values"]

_FCMP = {
    CompareOp.LT: "olt", CompareOp.LE: "ole", CompareOp.GT: "ogt",
    CompareOp.GE: "oge", CompareOp.EQ: "oeq", CompareOp.NE: "une",
}  # fmt: skip
_ARITHMETIC = {BinaryOp.ADD: "fadd", BinaryOp.SUB: "fsub", BinaryOp.MUL: "fmul", BinaryOp.DIV: "fdiv"}
_JOIN = {
    Reducer.SUM: BinaryOp.ADD, Reducer.PROD: BinaryOp.MUL,
    Reducer.MAX: BinaryOp.MAX, Reducer.MIN: BinaryOp.MIN,
}  # fmt: skip
_EXTREME = {BinaryOp.MAX: Reducer.MAX, BinaryOp.MIN: Reducer.MIN}
_QUIET = {Reducer.FMAX: "ogt", Reducer.FMIN: "olt"}
_ACROSS_LANES = {Reducer.SUM: "fadd", Reducer.PROD: "fmul"}


class Values:
    def __init__(self, context: Context, memory: Memory) -> None:
        self.at = context
        self.f = context.f
        self.memory = memory

    def expression(self, e: Expr, dtype: DType) -> Value:
        match e:
            case Const(value):
                return self.f.float_constant(value, dtype)
            case Load(tensor, index):
                return self.memory.read(self.at.slots[tensor], index)
            case Unary(op, a):
                x = self.expression(a, dtype)
                return Math(self.f, dtype, x.lanes).apply(op, x)
            case Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, a, b), c) | Binary(
                BinaryOp.ADD, c, Binary(BinaryOp.MUL, a, b)
            ):
                return self._fma(*(self.expression(x, dtype) for x in (a, b, c)), dtype=dtype)
            case Binary(op, a, b):
                return self._binary(op, self.expression(a, dtype), self.expression(b, dtype), dtype)
            case Select(Compare(compare, x, y), a, b):
                parts = [self.expression(v, dtype) for v in (x, y, a, b)]
                return self._select(compare, *parts, dtype=dtype)
            case Within(conds, a, b):
                return self._within(conds, a, b, dtype)
            case Compare():
                raise AssertionError("a comparison outside of a condition")

    # -- reductions ---------------------------------------------------------------------------------------

    def accumulate(self, reducer: Reducer, old: Value, e: Expr, dtype: DType) -> Value:
        """An old value joined with a new one; a sum of products in one instruction."""
        if reducer is Reducer.SUM and isinstance(e, Binary) and e.op is BinaryOp.MUL:
            return self._fma(self.expression(e.a, dtype), self.expression(e.b, dtype), old, dtype=dtype)
        return self.join(reducer, old, self.expression(e, dtype), dtype)

    def join(self, reducer: Reducer, old: Value, new: Value, dtype: DType) -> Value:
        if reducer not in _QUIET:
            return self._binary(_JOIN[reducer], old, new, dtype)
        lanes, names = self._even(dtype, old, new)
        return Value(self._extreme(reducer, Math(self.f, dtype, lanes), *names), lanes)

    def lanes_to_join(self, reducer: Reducer, e: Expr, dtype: DType) -> Value:
        """The values of all lanes, with the neutral element where they are off or hold no number."""
        assert self.at.lane is not None
        lanes = self.at.lane.lanes
        value = self.f.splat(self.expression(e, dtype), lanes, dtype)
        if self.at.mask is not None:
            neutral = self.f.float_constant(reducer.identity, dtype, lanes)
            on = Math(self.f, dtype, lanes).select(self.at.mask, value.name, neutral.name)
            value = Value(on, lanes)
        if reducer in _QUIET:
            value = self.join(reducer, self.f.float_constant(reducer.identity, dtype), value, dtype)
        return value

    def across_lanes(self, reducer: Reducer, e: Expr, dtype: DType) -> Value:
        """The values of all lanes that are on, joined to a scalar."""
        value = self.lanes_to_join(reducer, e, dtype)
        lanes = value.lanes
        if reducer not in _ACROSS_LANES:
            return self._extreme_of_lanes(reducer, value, dtype)
        kind, element = vector_type(dtype, lanes), scalar_type(dtype)
        name = f"@llvm.vector.reduce.{_ACROSS_LANES[reducer]}.v{lanes}f{dtype.bits}"
        start = self.f.float_constant(reducer.identity, dtype).name
        return Value(self.f.emit(f"call reassoc {element} {name}({element} {start}, {kind} {value.name})"))

    # -- operations ---------------------------------------------------------------------------------------

    def _even(self, dtype: DType, *values: Value) -> tuple[int, list[str]]:
        """All values at the width of the widest."""
        lanes = max(v.lanes for v in values)
        return lanes, [self.f.splat(v, lanes, dtype).name if lanes else v.name for v in values]

    def _fma(self, a: Value, b: Value, c: Value, *, dtype: DType) -> Value:
        lanes, names = self._even(dtype, a, b, c)
        return Value(Math(self.f, dtype, lanes).fma(*names), lanes)

    def _binary(self, op: BinaryOp, a: Value, b: Value, dtype: DType) -> Value:
        lanes, (x, y) = self._even(dtype, a, b)
        math = Math(self.f, dtype, lanes)
        if op in _ARITHMETIC:
            return Value(math.binary(_ARITHMETIC[op], x, y), lanes)
        if op is BinaryOp.POW:
            return Value(math.power(x, Value(y, lanes, b.literal)), lanes)
        for value, literal in ((x, b.literal), (y, a.literal)):
            if literal is not None and literal == literal:  # one instruction, and NaN still passes
                bound = math.raise_ if op is BinaryOp.MAX else math.lower
                return Value(bound(value, literal), lanes)
        return Value(self._extreme(_EXTREME[op], math, x, y), lanes)

    def _extreme(self, reducer: Reducer, math: Math, x: str, y: str) -> str:
        """The larger or smaller, any of two zeros; NaN if either is, or else y only: x is no NaN then.

        As scalars, LLVM's ``maximum`` takes a branch that is never foreseen.
        """
        if reducer in _QUIET:
            return math.select(math.compare(_QUIET[reducer], y, x), y, x)
        if not math.lanes:
            kept = math.select(math.compare("ogt" if reducer is Reducer.MAX else "olt", x, y), x, y)
            return math.select(math.compare("uno", x, x), x, kept)
        return math.call("maximum" if reducer is Reducer.MAX else "minimum", x, y, flags="nsz ")

    def _extreme_of_lanes(self, reducer: Reducer, value: Value, dtype: DType) -> Value:
        """Halves against each other until one element is left; odd widths lane by lane."""
        name, lanes = value.name, value.lanes
        while lanes > 1 and lanes % 2 == 0:
            half = lanes // 2
            parts = [self._lanes_from(name, lanes, dtype, start, max(half, 2)) for start in (0, half)]
            name, lanes = self._extreme(reducer, Math(self.f, dtype, max(half, 2)), *parts), half
        if lanes == 1:
            kind = vector_type(dtype, 2)
            whole = self.f.emit(f"freeze {kind} {name}")  # keeps LLVM from taking the last step as scalars
            return Value(self.f.emit(f"extractelement {kind} {whole}, i64 0"))
        kind = vector_type(dtype, lanes)
        one, *others = [self.f.emit(f"extractelement {kind} {name}, i64 {i}") for i in range(lanes)]
        for other in others:
            one = self._extreme(reducer, Math(self.f, dtype, 0), one, other)
        return Value(one)

    def _lanes_from(self, name: str, lanes: int, dtype: DType, start: int, count: int) -> str:
        """So many lanes of a vector from one on, going round."""
        return self.f.shuffle(name, "poison", dtype, lanes, [(start + i) % lanes for i in range(count)])

    def _select(self, op: CompareOp, x: Value, y: Value, a: Value, b: Value, *, dtype: DType) -> Value:
        lanes, names = self._even(dtype, x, y, a, b)
        math = Math(self.f, dtype, lanes)
        cond = math.compare(_FCMP[op], names[0], names[1])
        return Value(math.select(cond, names[2], names[3]), lanes)

    # -- guards -------------------------------------------------------------------------------------------

    def _within(self, forms: tuple[Affine, ...], a: Expr, b: Expr, dtype: DType) -> Value:
        conds = Conditions(self.at, forms)
        if conds.never:
            return self.expression(b, dtype)
        if conds.always:
            return self.expression(a, dtype)
        if not conds.plain:
            return self._within_lanes(conds, a, b, dtype)
        f = self.f
        inside, outside, done = f.fresh_label("in"), f.fresh_label("out"), f.fresh_label("join")
        f.line(f"br i1 {conds.truth()}, label %{inside}, label %{outside}")
        lanes = self.at.lane.lanes if self.at.lane else 0
        arms: list[str] = []
        for label, arm in ((inside, a), (outside, b)):
            f.start(label)
            with self.at.block():
                masked = arm is a and conds.lane
                value = self._within_lanes(conds, a, b, dtype) if masked else self.expression(arm, dtype)
                name = f.splat(value, lanes, dtype).name if lanes else value.name
            arms.append(f"[ {name}, %{f.label} ]")
            f.branch(done)
        f.start(done)
        return Value(f.emit(f"phi {vector_type(dtype, lanes)} {', '.join(arms)}"), lanes)

    def _within_lanes(self, conds: Conditions, a: Expr, b: Expr, dtype: DType) -> Value:
        assert self.at.lane is not None
        lanes = self.at.lane.lanes
        here = conds.mask()
        other = self.f.splat(self.expression(b, dtype), lanes, dtype)
        mask = conds.within(self.at.mask, here)
        with self.at.lanes(self.at.lane, mask, guarding=True), self.at.block():
            value = self.f.splat(self.expression(a, dtype), lanes, dtype)
        return Value(Math(self.f, dtype, lanes).select(here, value.name, other.name), lanes)
