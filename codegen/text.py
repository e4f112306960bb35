"""A small builder of LLVM IR text: names, blocks with insertion points, constants, memoised values."""

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from tunesmith.ir.dtypes import DType

__all__ = ["Function", "Text", "Value", "flatten", "scalar_type", "vector_type"]

Text = list["str | Text"]
"""Lines and nested insertion points, flattened in the end."""

_TYPES = {DType.F32: "float", DType.F64: "double"}


def scalar_type(dtype: DType) -> str:
    return _TYPES[dtype]


def vector_type(dtype: DType, lanes: int) -> str:
    return f"<{lanes} x {_TYPES[dtype]}>" if lanes else _TYPES[dtype]


def _round_to_f32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA name or constant; ``lanes`` 0 is a scalar. ``literal`` tells a floating constant apart."""

    name: str
    lanes: int = 0
    literal: float | None = None


def flatten(text: Text) -> Iterator[str]:
    for item in text:
        if isinstance(item, str):
            yield item
        else:
            yield from flatten(item)


@dataclass
class Function:
    """The text of one function under construction.

    ``out`` is where instructions go now; ``label`` the basic block that they are in. ``memo`` is a stack of
    values already computed, one table a dominating region. ``features`` are LLVM's names of those that the
    code may use beyond what LLVM chooses by itself.
    """

    features: frozenset[str] = frozenset()
    out: Text = field(default_factory=list)
    label: str = "entry"
    memo: list[dict[object, Value]] = field(default_factory=lambda: [{}])
    numbers: Iterator[int] = field(default_factory=count)

    def name(self) -> str:
        return f"%v{next(self.numbers)}"

    def fresh_label(self, hint: str) -> str:
        return f"{hint}{next(self.numbers)}"

    def emit(self, instruction: str) -> str:
        name = self.name()
        self.out.append(f"  {name} = {instruction}")
        return name

    def line(self, instruction: str) -> None:
        self.out.append(f"  {instruction}")

    def start(self, label: str) -> None:
        self.out.append(f"{label}:")
        self.label = label

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def recall(self, key: object) -> Value | None:
        for table in reversed(self.memo):
            if (value := table.get(key)) is not None:
                return value
        return None

    def remember(self, key: object, value: Value) -> Value:
        self.memo[-1][key] = value
        return value

    def text(self) -> str:
        return "\n".join(flatten(self.out))

    def float_constant(self, value: float, dtype: DType, lanes: int = 0) -> Value:
        exact = _round_to_f32(value) if dtype is DType.F32 else value
        bits = struct.unpack("<Q", struct.pack("<d", exact))[0]
        text = f"0x{bits:016X}"
        if lanes:
            text = f"splat ({scalar_type(dtype)} {text})"
        return Value(text, lanes, exact)

    def shuffle(self, a: str, b: str, dtype: DType, width: int, lanes: Sequence[int]) -> str:
        """Some lanes of two vectors side by side; the second's are counted on from the first's."""
        kind, chosen = vector_type(dtype, width), ", ".join(f"i32 {i}" for i in lanes)
        return self.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{chosen}>")

    def splat(self, value: Value, lanes: int, dtype: DType) -> Value:
        """A scalar in every lane; vectors stay as they are."""
        if value.lanes == lanes:
            return value
        assert value.lanes == 0, "vectors of two widths meet"
        if value.literal is not None:
            return self.float_constant(value.literal, dtype, lanes)
        key = ("splat", value.name, lanes)
        if (known := self.recall(key)) is not None:
            return known
        kind = vector_type(dtype, lanes)
        one = self.emit(f"insertelement {kind} poison, {scalar_type(dtype)} {value.name}, i64 0")
        name = self.emit(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")
        return self.remember(key, Value(name, lanes))
