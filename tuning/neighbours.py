"""Schedules of neighbours in a program's own space: same structure, other shapes or other targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np

from tunesmith.db import Match, Neighbour
from tunesmith.ir import Program, TunesmithError, canonical, program_from_json
from tunesmith.records import Record, Target, Workload
from tunesmith.schedule import Schedule
from tunesmith.search import Candidate, Space
from tunesmith.search.transfer import Untranslatable, renamed, translate

__all__ = ["NeighbourStore", "Translated", "Translation", "called", "describe", "seeds", "translated"]

_MOST = 8  # neighbours that are looked at


class NeighbourStore(Interface):
    """What this needs of a database."""

    def neighbours(
        self, workload: Workload, target: Target, limit: int = ..., *, observed: bool = ...
    ) -> list[Neighbour]: ...


@dataclass(frozen=True)
class Translated:
    """A neighbour, its program's canonical form, its schedule there, and the candidate that it became."""

    neighbour: Neighbour
    program: Program
    schedule: Schedule
    candidate: Candidate


@dataclass(frozen=True)
class Translation:
    """``skipped`` says of each neighbour without a translation why there is none."""

    found: tuple[Translated, ...]
    skipped: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(dict.fromkeys(t.candidate for t in self.found))

    @property
    def notes(self) -> tuple[str, ...]:
        """For people: what was used and what was not."""
        names = [describe(t.neighbour) for t in self.found]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        used = [f"starts from what is known of {', '.join(names[:3])}{more}"] if names else []
        return (*used, *self.skipped)


def seeds(
    store: NeighbourStore, workload: Workload, space: Space, target: Target, seed: int, observed: bool = False
) -> Translation:
    """The neighbours' best schedules as candidates, those to be tried first in front; with ``observed`` also
    what other programs found."""
    return translated(store.neighbours(workload, target, _MOST, observed=observed), space, seed)


def translated(neighbours: Sequence[Neighbour], space: Space, seed: int = 0) -> Translation:
    rng = np.random.default_rng(seed)
    found, skipped = [], []
    for neighbour in neighbours:
        record = neighbour.best.record
        try:
            program = canonical(program_from_json(record.workload.program))
            schedule = Schedule.from_json(record.schedule)
            candidate = translate(renamed(schedule, program, space.program), space, rng)
        except (TunesmithError, Untranslatable) as reason:
            skipped.append(f"no use of {describe(neighbour)}: {reason}")
        else:
            found.append(Translated(neighbour, program, schedule, candidate))
    return Translation(tuple(found), tuple(skipped))


def describe(neighbour: Neighbour) -> str:
    """Its name and shapes, and where it was measured if not on this kind of machine."""
    return called(neighbour.best.record, elsewhere=neighbour.best.match is not Match.EXACT)


def called(record: Record, *, elsewhere: bool) -> str:
    """The name and shapes of what a record is of; where it was measured, if that is ``elsewhere``."""
    inputs = record.workload.program.get("inputs", [])
    shapes = ", ".join("×".join(map(str, i["shape"])) for i in inputs)
    where = f" on {record.target.model}" if elsewhere else ""
    return f"{record.workload.name}({shapes}){where}"
