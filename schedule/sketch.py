"""Sketches: schedules with holes, and the knobs that fill them.

    Sketch  = name, steps with Hole(knob) for numbers, Knob…, Ceiling…
    Knob    = name, values…         a finite domain; a candidate chooses one value by its index
    Ceiling = knob…, bound          the product of these knobs' values stays at or below the bound

A choice that changes the loop structure makes another sketch; a knob only changes numbers. The structure of a
sketch is therefore replayed once, and all its candidates are rows of an integer matrix.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from tunesmith.schedule.steps import Schedule, Step, Tail

__all__ = ["TAILS", "Ceiling", "Hole", "Knob", "Sketch", "fill"]

TAILS = (Tail.PEEL, Tail.OVERLAP, Tail.MASK)
"""A tail knob's values are indices into this tuple."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Stands for the value of a knob in a step."""

    knob: str


@dataclass(frozen=True, slots=True)
class Knob:
    """``values`` ascending: neighbours in the tuple are neighbours in the space."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What hardware sets a bound to: registers of a tile, statements of unrolled code, bytes of a buffer."""

    knobs: tuple[str, ...]
    bound: int


def fill(step: Step, value: Callable[[str], Any]) -> Step:
    """The step with every hole replaced by ``value(knob)``."""
    changes: dict[str, Any] = {}
    for f in fields(step):
        old = getattr(step, f.name)
        if isinstance(old, Hole):
            changes[f.name] = value(old.knob)
        elif isinstance(old, tuple) and any(isinstance(x, Hole) for x in old):
            changes[f.name] = tuple(value(x.knob) if isinstance(x, Hole) else x for x in old)
    return replace(step, **changes) if changes else step


@dataclass(frozen=True)
class Sketch:
    name: str
    steps: tuple[Step, ...]
    knobs: tuple[Knob, ...]
    ceilings: tuple[Ceiling, ...] = ()

    @cached_property
    def column(self) -> dict[str, int]:
        return {k.name: i for i, k in enumerate(self.knobs)}

    @property
    def size(self) -> int:
        """Number of candidates, constraints not counted."""
        n = 1
        for k in self.knobs:
            n *= len(k.values)
        return n

    def decode(self, row: Sequence[int]) -> Schedule:
        """The schedule of one candidate, given the index of each knob's value."""

        def value(knob: str) -> Any:
            i = self.column[knob]
            v = self.knobs[i].values[int(row[i])]
            return TAILS[v] if knob.endswith("tail") else v

        return Schedule(tuple(fill(s, value) for s in self.steps))

    def encode(self, schedule: Schedule) -> tuple[int, ...] | None:
        """The candidate whose schedule this is; None when it is not one of this sketch."""
        if len(schedule.steps) != len(self.steps):
            return None
        found: dict[str, Any] = {}
        for mine, other in zip(self.steps, schedule.steps, strict=True):
            if type(mine) is not type(other):
                return None
            for f in fields(mine):
                if not _unify(getattr(mine, f.name), getattr(other, f.name), found):
                    return None
        row = []
        for k in self.knobs:
            value = found.get(k.name, k.values[0])
            value = TAILS.index(value) if isinstance(value, Tail) else value
            if value not in k.values:
                return None
            row.append(k.values.index(value))
        return tuple(row)


def _unify(mine: Any, other: Any, found: dict[str, Any]) -> bool:
    """Match a field of a sketch's step with a schedule's, noting what each hole stands for."""
    if isinstance(mine, Hole):
        return bool(found.setdefault(mine.knob, other) == other)
    if isinstance(mine, tuple):
        same = isinstance(other, tuple) and len(mine) == len(other)
        return same and all(_unify(a, b, found) for a, b in zip(mine, other, strict=True))
    return bool(mine == other)
