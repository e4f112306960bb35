"""Schedules carried over to another program of the same structure: other shapes, other machines.

A schedule fits a sketch as far as their steps agree when numbers are left out. The sketch that agrees best is
taken, its knobs get the values that the schedule has in their places, or the nearest.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from math import log2
from typing import Any

import numpy as np

from tunesmith.ir import Program, anatomy
from tunesmith.schedule import TAILS, ComputeAt, Hole, IllegalStep, Schedule, Sketch, Step, Tail, lower
from tunesmith.search.population import repair
from tunesmith.search.space import Candidate, Space

__all__ = ["Untranslatable", "renamed", "translate"]

_LEAST = 0.7  # of the steps that must agree; below, the best of a shape says little about another's
_TRIED = 3  # sketches, the most like first


class Untranslatable(Exception):
    """A schedule that is not like any sketch, or illegal in the one it is like. The text says which."""


def translate(schedule: Schedule, space: Space, rng: np.random.Generator) -> Candidate:
    """The candidate of ``space`` that is most like a schedule in the names of the space's program.

    Raises Untranslatable.
    """
    fits = sorted(((_fit(s, schedule), -i) for i, s in enumerate(space.sketches)), reverse=True)
    reason = f"the sketch most like it has {fits[0][0].agreeing:.0%} of its steps" if fits else "no sketches"
    for fit, number in fits[:_TRIED]:
        if fit.agreeing < _LEAST:
            break
        sketch = space.sketches[-number]
        rows = repair(sketch, np.array([_row(sketch, schedule)], dtype=np.int64), rng)
        if not len(rows):
            reason = "nothing like it is under the ceilings on its knobs"
            continue
        candidate = Candidate(-number, tuple(map(int, rows[0])))
        try:
            lower(space.program, space.decode(candidate))
        except IllegalStep as refusal:
            reason = str(refusal)
            continue
        return candidate
    raise Untranslatable(reason)


def renamed(schedule: Schedule, source: Program, target: Program) -> Schedule:
    """The schedule of one canonical form in the names of another of the same structure.

    Raises Untranslatable where stages of equal structure are one in one of them and two in the other.
    """
    names = _Names.between(source, target)
    return schedule if names.same else Schedule(tuple(map(names.step, schedule.steps)))


# -- how well a schedule fits a sketch ----------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class _Fit:
    """Share of steps that agree without their numbers; then how close numbers are that are no knobs."""

    agreeing: float
    closeness: float


def _fit(sketch: Sketch, schedule: Schedule) -> _Fit:
    mine, other = Counter(map(_shape, sketch.steps)), Counter(map(_shape, schedule.steps))
    agreeing = 2 * (mine & other).total() / max(1, mine.total() + other.total())
    apart = sum(
        abs(log2(a) - log2(b))
        for a, b in _places(sketch, schedule)
        if isinstance(a, int) and isinstance(b, int) and a > 0 and b > 0
    )
    return _Fit(agreeing, -apart)


def _shape(step: Step) -> Hashable:
    """A step without its numbers and tails."""
    return type(step), tuple(_text(getattr(step, f.name)) for f in fields(step))


def _text(value: Any) -> Hashable:
    if isinstance(value, tuple):
        return tuple(map(_text, value))
    return value if isinstance(value, str) and not isinstance(value, Tail) else None


def _places(sketch: Sketch, schedule: Schedule) -> Iterator[tuple[Any, Any]]:
    """What stands at the same places of steps that agree."""
    waiting = defaultdict(list)
    for step in reversed(schedule.steps):
        waiting[_shape(step)].append(step)
    for step in sketch.steps:
        others = waiting[_shape(step)]
        if others:
            other = others.pop()
            for f in fields(step):
                a, b = getattr(step, f.name), getattr(other, f.name)
                yield from zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]


def _row(sketch: Sketch, schedule: Schedule) -> list[int]:
    """Knob indices by the schedule's values; a knob that it says nothing of is in the middle."""
    values = {a.knob: b for a, b in _places(sketch, schedule) if isinstance(a, Hole)}
    row = []
    for knob in sketch.knobs:
        value = values.get(knob.name, knob.values[len(knob.values) // 2])
        value = TAILS.index(value) if isinstance(value, Tail) else value
        row.append(int(np.argmin(np.abs(np.asarray(knob.values) - value))))
    return row


# -- names --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Names:
    """Stages, and the reduce axes of each, of one canonical form as another calls them."""

    stages: Mapping[str, str]
    axes: Mapping[str, Mapping[str, str]]

    @staticmethod
    def between(source: Program, target: Program) -> "_Names":
        mine, other = anatomy(source), anatomy(target)
        if [len(axes) for _, axes in mine] != [len(axes) for _, axes in other]:
            raise Untranslatable("its stages are others")
        pairs = list(zip(mine, other, strict=True))
        stages = {a: b for (a, _), (b, _) in pairs}
        return _Names(stages, {a: dict(zip(x, y, strict=True)) for (a, x), (_, y) in pairs})

    @property
    def same(self) -> bool:
        names = [self.stages, *self.axes.values()]
        return all(a == b for some in names for a, b in some.items())

    def step(self, step: Step) -> Step:
        owner = step.consumer if isinstance(step, ComputeAt) else step.stage
        return replace(step, **{f.name: self._value(getattr(step, f.name), owner) for f in fields(step)})

    def _value(self, value: Any, owner: str) -> Any:
        if isinstance(value, tuple):
            return tuple(self._value(v, owner) for v in value)
        if not isinstance(value, str) or isinstance(value, Tail):
            return value
        stage = re.match(r"t\d+", value) or re.match(r"t\d+", owner)
        axes = self.axes.get(stage[0], {}) if stage else {}
        return re.sub(r"\b[tr]\d+\b", lambda m: self.stages.get(m[0]) or axes.get(m[0], m[0]), value)
