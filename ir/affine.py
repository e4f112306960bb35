"""Affine index expressions over named integer variables (axes, loops, bound variables)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Affine", "Range", "constant", "interval", "var"]

Range: TypeAlias = tuple[int, int]
"""Inclusive bounds of a variable."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``const + sum(coefficient * variable)``; terms are sorted by name and hold no zero coefficient."""

    terms: tuple[tuple[str, int], ...] = ()
    const: int = 0

    @staticmethod
    def of(terms: Mapping[str, int] | Iterable[tuple[str, int]], const: int = 0) -> "Affine":
        total: dict[str, int] = {}
        for name, c in terms.items() if isinstance(terms, Mapping) else terms:
            total[name] = total.get(name, 0) + c
        return Affine(tuple(sorted((n, c) for n, c in total.items() if c)), const)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.terms)

    def coefficient(self, name: str) -> int:
        return next((c for n, c in self.terms if n == name), 0)

    def __add__(self, other: "Affine | int") -> "Affine":
        if isinstance(other, int):
            return Affine(self.terms, self.const + other)
        if not other.terms:
            return Affine(self.terms, self.const + other.const)
        if not self.terms:
            return Affine(other.terms, self.const + other.const)
        return Affine.of(self.terms + other.terms, self.const + other.const)

    def __neg__(self) -> "Affine":
        return self * -1

    def __sub__(self, other: "Affine | int") -> "Affine":
        return self + (-other)

    def __mul__(self, factor: int) -> "Affine":
        if factor == 0:
            return Affine()
        return Affine(tuple((n, c * factor) for n, c in self.terms), self.const * factor)

    def substitute(self, values: Mapping[str, "Affine"]) -> "Affine":
        """Replace variables; those that ``values`` does not name stay."""
        if not any(n in values for n, _ in self.terms):
            return self
        total: dict[str, int] = {}
        const = self.const
        for name, c in self.terms:
            value = values.get(name)
            if value is None:
                total[name] = total.get(name, 0) + c
                continue
            const += c * value.const
            for n, d in value.terms:
                total[n] = total.get(n, 0) + c * d
        return Affine.of(total, const)

    def rename(self, names: Mapping[str, str]) -> "Affine":
        return Affine.of(((names.get(n, n), c) for n, c in self.terms), self.const)

    def evaluate(self, values: Mapping[str, int]) -> int:
        return self.const + sum(c * values[n] for n, c in self.terms)

    def __str__(self) -> str:
        out = ""
        for name, c in self.terms:
            sign = "-" if c < 0 else "+"
            factor = name if abs(c) == 1 else f"{abs(c)}*{name}"
            out += f" {sign} {factor}" if out else (f"-{factor}" if c < 0 else factor)
        if not out:
            return str(self.const)
        if self.const:
            out += f" {'-' if self.const < 0 else '+'} {abs(self.const)}"
        return out


def var(name: str) -> Affine:
    return Affine(((name, 1),))


def constant(value: int) -> Affine:
    return Affine((), value)


def interval(expr: Affine, ranges: Mapping[str, Range]) -> Range:
    """Inclusive bounds of ``expr`` when every variable takes its whole range independently."""
    lo = hi = expr.const
    for name, c in expr.terms:
        a, b = ranges[name]
        lo += c * (a if c > 0 else b)
        hi += c * (b if c > 0 else a)
    return lo, hi
