"""The space of a program: all sketches that the rules derive."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tunesmith.ir.program import Program
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Schedule, Sketch, replay
from tunesmith.search.analysis import batch_axis
from tunesmith.search.draft import Draft
from tunesmith.search.rules import DEFAULT_RULES, Hardware, Rule, Slices
from tunesmith.search.rules.base import thinned

__all__ = ["Candidate", "Space", "derive"]

_log = logging.getLogger(__name__)
_MOST_DRAFTS = 64
_MOST_DECISIONS = 1024  # drafts times stages: long programs have fewer variants, and are derived in seconds
_LEAST_DRAFTS = 4
_LEAST_VARIANTS = 2  # that every stage of a long program still gets


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point of the space: the index of a sketch and one knob index a knob."""

    sketch: int
    row: tuple[int, ...]


@dataclass(frozen=True)
class Space:
    """``disabled`` names rules that failed on this program, with the reason."""

    program: Program
    sketches: tuple[Sketch, ...]
    disabled: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(s.size for s in self.sketches)

    def decode(self, candidate: Candidate) -> Schedule:
        return self.sketches[candidate.sketch].decode(candidate.row)

    def locate(self, schedule: Schedule) -> Candidate | None:
        """The candidate whose schedule this is; None when no sketch has it."""
        for i, sketch in enumerate(self.sketches):
            row = sketch.encode(schedule)
            if row is not None:
                return Candidate(i, row)
        return None


def derive(
    program: Program, target: Target, rules: Sequence[Rule] = DEFAULT_RULES, slices: Slices | None = None
) -> Space:
    """Walk the stages from the last to the first; the first rule that applies to a stage decides it.

    Where threads lack work, the walk is done again with reductions in slices. A rule that raises anything but
    IllegalStep is disabled for this program and logged.
    """
    hardware = Hardware.of(target, program.stages[-1].dtype)
    disabled: dict[str, str] = {}
    start = Draft(replay(program, Schedule()))
    drafts = [start]
    axis = batch_axis(program) if hardware.threads == 1 else None
    if axis is not None:
        drafts.append(replace(start, name="sliced whole", batch=(program.stages[-1].name, axis)))
    cut = slices or Slices()
    drafts += _tried(cut.name, partial(cut.apply, start, hardware), disabled)
    finished: list[Draft] = []
    limit = min(_MOST_DRAFTS, max(_LEAST_DRAFTS, _MOST_DECISIONS // len(program.stages)))
    while drafts:
        following: list[Draft] = []
        most = max(_LEAST_VARIANTS, limit // len(drafts))
        for draft in drafts:
            stage = _next_stage(draft)
            if stage is None:
                finished.append(draft)
            else:
                following.extend(_decide(draft, stage, hardware, rules, disabled, most))
        drafts = thinned(following, limit)
    sketches = _named_apart([d.sketch() for d in thinned(finished, limit)])
    return Space(program, sketches, tuple(f"{n}: {why}" for n, why in disabled.items()))


def _next_stage(draft: Draft) -> str | None:
    return next((s.name for s in reversed(draft.program.stages) if s.name not in draft.done), None)


def _decide(
    draft: Draft, stage: str, hardware: Hardware, rules: Sequence[Rule], disabled: dict[str, str], most: int
) -> list[Draft]:
    for rule in rules:
        if rule.name in disabled:
            continue
        drafts = _tried(rule.name, partial(rule.apply, draft, stage, hardware, most), disabled)
        if drafts:
            return [d for d in (_sliced(d, stage) for d in drafts) if d is not None]
    last = _sliced(draft.finish(stage), stage)
    return [] if last is None else [last]


def _tried(name: str, rule: Callable[[], list[Draft]], disabled: dict[str, str]) -> list[Draft]:
    """What a rule gives. A fault in it must not end the run: it is disabled and the others go on."""
    try:
        return rule()
    except IllegalStep:
        return []
    except Exception as e:
        disabled[name] = f"{type(e).__name__}: {e}"
        _log.exception("sketch rule %s failed and is disabled for this program", name)
        return []


def _sliced(draft: Draft, stage: str) -> Draft | None:
    """The draft with a stage inside its batch; None where it cannot be."""
    try:
        return draft.slice(stage)
    except IllegalStep:
        return None


def _named_apart(sketches: list[Sketch]) -> tuple[Sketch, ...]:
    seen: dict[str, int] = {}
    out = []
    for s in sketches:
        n = seen[s.name] = seen.get(s.name, 0) + 1
        out.append(s if n == 1 else replace(s, name=f"{s.name} #{n}"))
    return tuple(out)
