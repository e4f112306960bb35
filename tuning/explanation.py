"""Explanations of records, and of what the cost model would choose where there are none."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from typing import Protocol as Interface

from tunesmith.costmodel import Explanation, Ranker, explain
from tunesmith.costmodel.anatomy import fixed
from tunesmith.costmodel.structure import structure
from tunesmith.ir import Program, TunesmithError, canonical, program_from_json
from tunesmith.records import Record, Target
from tunesmith.schedule import SCHEMA_VERSION, IllegalStep, Schedule, ScheduleError
from tunesmith.tuning.guess import guess
from tunesmith.tuning.pretrained import pretrained
from tunesmith.tuning.recording import comparable, schedule_of
from tunesmith.tuning.workload import workload_of

__all__ = ["Explained", "History", "explain_program", "explain_record"]

_MOST = 256  # of the latest trials are learnt from: replaying each takes milliseconds


class History(Interface):
    """What explaining needs of a database."""

    def history(self, workload_hash: str, fingerprint: str) -> list[Record]: ...


@dataclass(frozen=True, slots=True)
class Explained:
    """``record`` is None where nothing was measured: then it is a prediction. ``measured_s``: None of failed
    trials too. ``model``: which pretrained model has a say, or why none."""

    name: str
    workload_hash: str
    target: Target
    record: Record | None
    measured_s: float | None
    model: str
    explanation: Explanation

    def to_json(self) -> dict[str, Any]:
        """One object, with the same members for whatever is explained."""
        record = self.record
        return {
            "name": self.name,
            "workload": self.workload_hash,
            "target": self.target.fingerprint,
            "threads": self.target.threads,
            "record": record.id if record else None,
            "trial": record.trial if record else None,
            "status": record.measurement.status.value if record else None,
            "measured_s": self.measured_s,
            "model": self.model,
            **self.explanation.to_json(),
        }


def explain_record(record: Record, store: History, race_s: float | None = None) -> Explained:
    """Why a record's schedule takes its time, with what other trials of the same program and target teach.

    ``race_s``: the time of its final race, if it was in one. Raises TunesmithError for a schedule that this
    version cannot read or replay.
    """
    program = program_from_json(record.workload.program)
    form = canonical(program)
    try:
        schedule = Schedule.from_json(record.schedule)
        history = store.history(record.workload.hash, record.target.fingerprint)
        others = [r for r in comparable(history, record.protocol) if r.schedule_hash != record.schedule_hash]
        found = pretrained()
        explanation = explain(
            form, schedule, record.target, found.model, _learnt(form, record.target, others),
            warm=record.protocol.cache == "warm",
        )  # fmt: skip
    except ScheduleError as e:
        raise TunesmithError(
            f"record {record.id} cannot be explained: its schedule is not one of version {SCHEMA_VERSION}, "
            f"which is what this version of Tunesmith reads ({e})"
        ) from None
    except IllegalStep as e:
        raise TunesmithError(
            f"record {record.id} cannot be explained: this version of Tunesmith does not allow {e}"
        ) from None
    workload = record.workload
    return Explained(
        workload.name, workload.hash, record.target, record,
        race_s or (record.time_s if record.measurement.ok else None), found.reason,
        _named(explanation, _names(program, form)),
    )  # fmt: skip


def explain_program(program: Program, target: Target) -> Explained:
    """Why the cost model would choose what it chooses first, with nothing measured."""
    workload, form = workload_of(program)
    found = pretrained()
    schedule, _ = guess(form, target)
    explanation = _named(explain(form, schedule, target, found.model), _names(program, form))
    return Explained(program.name, workload.hash, target, None, None, found.reason, explanation)


def _learnt(program: Program, target: Target, records: Sequence[Record]) -> Ranker:
    """A ranker that has seen the latest working trials, each schedule a sketch of its own: so that those
    count which no rule makes any more."""
    schedules: list[Schedule] = []
    times_s: list[float] = []
    for record in [r for r in records if r.measurement.ok][-_MOST:]:
        schedule = schedule_of(record)
        if schedule is not None and _can_replay(program, schedule):
            schedules.append(schedule)
            times_s.append(record.time_s)
    ranker = Ranker(program, [fixed(s) for s in schedules], target, pretrained=pretrained().model)
    ranker.observe([(n, (), time_s) for n, time_s in enumerate(times_s)])
    return ranker


def _can_replay(program: Program, schedule: Schedule) -> bool:
    try:
        structure(program, fixed(schedule))
    except IllegalStep:
        return False
    return True


def _names(program: Program, form: Program) -> dict[str, str]:
    """Inputs and outputs of the canonical form as the program calls them."""
    mine = [*(t.name for t in form.inputs), *form.outputs]
    return dict(zip(mine, [*(t.name for t in program.inputs), *program.outputs], strict=True))


def _named(explanation: Explanation, names: Mapping[str, str]) -> Explanation:
    word = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")

    def told(text: str) -> str:
        return word.sub(lambda m: names[m[1]], text)

    stages = tuple(replace(s, name=told(s.name), formula=told(s.formula)) for s in explanation.stages)
    advice = tuple(replace(a, stage=told(a.stage)) for a in explanation.advice)
    return replace(explanation, stages=stages, advice=advice)
