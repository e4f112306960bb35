"""Extents of axes from the accesses of a statement, and the check that every access is in range.

1. An axis that stands alone as an index has the extent of that dimension.
2. Of an index over several axes of which one is not known yet (``2*h + r``), that axis gets the largest
   extent that keeps the index in range: floor((dim - 1 - max(rest)) / stride) + 1.

An index under a condition on its axes says nothing about extents: it is used for a part of them only.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tunesmith.ir.affine import Affine, Range, interval
from tunesmith.ir.bounds import out_of_range
from tunesmith.ir.language.source import Source

__all__ = ["Access", "Dimension", "check_ranges", "infer_extents", "plain"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One index of an access; ``number`` is which dimension it is."""

    index: Affine
    extent: int
    number: int
    node: ast.AST

    @property
    def text(self) -> str:
        return str(self.index.rename({n: plain(n) for n in self.index.names}))


@dataclass(frozen=True, slots=True)
class Access:
    """``guards`` hold where the access is made; ``partial`` axes are those it is limited to a part of."""

    tensor: str
    dims: tuple[Dimension, ...]
    guards: tuple[Affine, ...]
    partial: frozenset[str]


def infer_extents(
    accesses: list[Access], given: Mapping[str, int], axes: dict[str, ast.AST], source: Source
) -> dict[str, int]:
    """The extent of each axis; ``axes`` maps them to where they first appear."""
    inference = _Inference(accesses, dict(given), source)
    inference.alone()
    while missing := [a for a in axes if a not in inference.known]:
        if not inference.window(missing):
            name = missing[0]
            source.fail(axes[name], inference.undetermined(name))
    return inference.known


class _Inference:
    def __init__(self, accesses: list[Access], known: dict[str, int], source: Source) -> None:
        self.uses = [(a, d) for a in accesses for d in a.dims if a.partial.isdisjoint(d.index.names)]
        self.known = known
        self.given = frozenset(known)
        self.source = source
        self.reason: dict[str, str] = {}

    def alone(self) -> None:
        for access, d in self.uses:
            if len(d.index.terms) != 1 or d.index.const or d.index.terms[0][1] != 1:
                continue
            name = d.index.terms[0][0]
            if name in self.given:
                continue
            here = f"dimension {d.number} of {access.tensor}"
            extent = self.known.setdefault(name, d.extent)
            there = self.reason.setdefault(name, here)
            if extent != d.extent:
                axis = plain(name)
                self.source.fail(
                    d.node, f"axis {axis} has extent {extent} by {there}, but {here} has extent {d.extent}"
                )

    def window(self, missing: list[str]) -> bool:
        """Settle one axis, preferably one of which every use allows it; False if none can be."""
        solvable = {name: self._solvable(name) for name in missing}
        ready = [n for n, uses in solvable.items() if uses and len(uses) == self._count(n)]
        name = next(iter(ready or [n for n, uses in solvable.items() if uses]), None)
        if name is None:
            return False
        self.known[name] = min(self._largest(name, a, d) for a, d in solvable[name])
        return True

    def _count(self, name: str) -> int:
        return sum(d.index.coefficient(name) != 0 for _, d in self.uses)

    def _solvable(self, name: str) -> list[tuple[Access, Dimension]]:
        return [
            (a, d)
            for a, d in self.uses
            if d.index.coefficient(name) and all(n == name or n in self.known for n in d.index.names)
        ]

    def _largest(self, name: str, access: Access, d: Dimension) -> int:
        stride = d.index.coefficient(name)
        rest = d.index - Affine(((name, stride),))
        lo, hi = interval(rest, {n: (0, self.known[n] - 1) for n in rest.names})
        extent = (d.extent - 1 - hi) // stride + 1 if stride > 0 else lo // -stride + 1
        if extent < 1:
            self.source.fail(d.node, _outside(access.tensor, d, hi if stride > 0 else lo))
        return extent

    def undetermined(self, name: str) -> str:
        axis = plain(name)
        use = next(((a, d) for a, d in self.uses if d.index.coefficient(name)), None)
        if use is None:
            why = "no unconditional access uses it"
        else:
            others = ", ".join(plain(n) for n in use[1].index.names if n != name)
            why = f"{use[1].text} of {use[0].tensor} also depends on {others}"
        how = f"as {axis}:8 on the left or {axis}=8 in a reduction"
        return f"the extent of axis {axis} cannot be inferred, {why}; give it, {how}"


def check_ranges(accesses: list[Access], extents: Mapping[str, int], source: Source) -> None:
    """Every index of every access is within its dimension wherever the access is made."""
    ranges = {n: (0, e - 1) for n, e in extents.items()}
    for access, d in _dimensions(accesses):
        value = out_of_range(d.index, d.extent, access.guards, _some(ranges, access, d))
        if value is not None:
            source.fail(d.node, _outside(access.tensor, d, value))


def _dimensions(accesses: list[Access]) -> Iterator[tuple[Access, Dimension]]:
    for a in accesses:
        for d in a.dims:
            yield a, d


def _some(ranges: dict[str, Range], access: Access, d: Dimension) -> dict[str, Range]:
    names = {n for e in (d.index, *access.guards) for n in e.names}
    return {n: ranges[n] for n in names}


def _outside(tensor: str, d: Dimension, value: int) -> str:
    where = f"dimension {d.number} of {tensor}, which has extent {d.extent}"
    if not d.index.terms:
        return f"index {value} is out of range for {where}"
    return f"index {d.text} reaches {value}, out of range for {where}"


def plain(name: str) -> str:
    """The user's name of an axis; reduce axes carry a number behind it while a statement is read."""
    return name.partition("#")[0]
