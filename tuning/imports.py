"""Taking over records that another database exported.

Nothing of a file is believed: hashes and counts are computed here, schedules must be legal for their
programs, and times possible on their targets. A line that does not hold is refused, the others are taken.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tunesmith.db import Store
from tunesmith.db.codec import record_from_row
from tunesmith.db.portable import FORMAT
from tunesmith.ir import Program, TunesmithError
from tunesmith.records import Record, Target, Workload
from tunesmith.schedule import Schedule
from tunesmith.tuning.uploads import Implausible, Submission, accept, read_program

__all__ = ["ImportResult", "import_lines"]

_AT_ONCE = 200
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)


@dataclass
class ImportResult:
    """How many records were new or there already, and how many lines were refused, by reason."""

    new: int = 0
    known: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def import_lines(
    store: Store,
    lines: Iterable[bytes],
    *,
    trusted: bool = False,
    on_batch: Callable[[ImportResult], object] = lambda _: None,
) -> ImportResult:
    """Takes over what ``export`` wrote; lines of records that are there change nothing, so that an import
    that was interrupted is simply repeated.

    ``trusted``: schedules and times are those of a database of one's own, and not looked at (ten times as
    fast). Raises ``TunesmithError`` when the first line is not that of a known format.
    """
    taking = _Import(store, trusted)
    batch: list[Record] = []
    rest = iter(lines)
    _check_format(next(rest, b""))
    for line in rest:
        if not line.strip():
            continue
        try:
            record = taking.line(json.loads(line))
        except (TunesmithError, *_MALFORMED) as fault:
            taking.result.refused[_reason(fault)] += 1
            continue
        if record is not None:
            batch.append(record)
        if len(batch) >= _AT_ONCE:
            taking.store_batch(batch)
            batch = []
            on_batch(taking.result)
    taking.store_batch(batch)
    taking.store_races()
    on_batch(taking.result)
    return taking.result


def _check_format(line: bytes) -> None:
    try:
        found = json.loads(line)["tunesmith"]
    except _MALFORMED as fault:
        raise TunesmithError("this is no export of Tunesmith: its first line does not say so") from fault
    if found != FORMAT:
        raise TunesmithError(f"format {found!r} is not known; this version reads {FORMAT}")


def _reason(fault: Exception) -> str:
    """Few words, since the same reason is counted over many lines."""
    if isinstance(fault, Implausible):
        return "implausible"
    if isinstance(fault, TunesmithError):
        return type(fault).__name__
    return "malformed"


def _check_types(value: Mapping[str, Any]) -> None:
    """Of what no later step looks at. Raises ValueError."""
    measured, protocol = value["measurement"], value["protocol"]
    fine = (
        isinstance(value["id"], str) and _ID.fullmatch(value["id"]) is not None,
        _is_whole(value["trial"], 31) and _is_whole(value["seed"], 63),
        isinstance(value.get("error", ""), str) and isinstance(value["schedule_hash"], str),
        all(isinstance(x, str) for pair in value["versions"].items() for x in pair),
        protocol["cache"] in ("warm", "cold") and _is_whole(protocol["samples"], 31),
        all(_is_number(x) for name, x in protocol.items() if name != "cache"),
        _is_whole(measured["signal"], 31) and isinstance(measured["times_s"], list),
        all(_is_number(x) for name, x in measured.items() if name != "times_s" and x is not None),
        "race_s" not in value or (_is_number(value["race_s"]) and 0 < value["race_s"] < math.inf),
    )
    if not all(fine):
        raise ValueError("a member has a type or value that records do not have")


def _is_whole(value: Any, bits: int) -> bool:
    return type(value) is int and 0 <= value < 1 << bits


def _is_number(value: Any) -> bool:
    """JSON has no infinity: a number that is none is a text."""
    return type(value) in (int, float) or value in ("inf", "-inf", "nan")


class _Import:
    def __init__(self, store: Store, trusted: bool) -> None:
        self.result = ImportResult()
        self._store = store
        self._trusted = trusted
        self._workloads: dict[str, tuple[Workload, Program]] = {}
        self._targets: dict[str, Target] = {}
        self._variants: dict[str, tuple[Workload, Program]] = {}
        self._shared: set[str] = set()
        self._races: dict[tuple[str, str, str], dict[str, float]] = {}

    def line(self, found: Mapping[str, Any]) -> Record | None:
        ((kind, value),) = found.items()
        if kind == "workload":
            read = read_program(value["program"])
            if read[0].hash != value["hash"]:
                raise Implausible("the program is not that of the hash")
            self._workloads[value["hash"]] = read
        elif kind == "target":
            target = Target.from_json({name: x for name, x in value.items() if name != "fingerprint"})
            if target.fingerprint != value["fingerprint"]:
                raise Implausible("the target is not that of the fingerprint")
            self._targets[target.fingerprint] = self._store.target(target.fingerprint) or target
        elif kind == "record":
            return self._record(value)
        else:
            raise ValueError(kind)
        return None

    def _record(self, value: Mapping[str, Any]) -> Record:
        workload, form = self._workloads[value["workload"]]
        target = self._targets[value["target"]]
        _check_types(value)
        row = {"job_id": None, "variant": None, "error": "", **value}
        record = record_from_row(row, workload, target)
        if record.workload != workload:
            workload, form = self._variant(record.workload)
        schedule = Schedule.from_json(record.schedule)
        if schedule.hash != record.schedule_hash:
            raise Implausible("the schedule is not that of the hash")
        if not self._trusted:
            self._accepted(record, (workload, form))
        if "race_s" in value and record.measurement.ok:
            key = (record.workload.hash, target.fingerprint, record.protocol.cache)
            self._races.setdefault(key, {})[record.id] = float(value["race_s"])
        return record

    def _variant(self, workload: Workload) -> tuple[Workload, Program]:
        """A program written with other names than the stored one, which must compute the same."""
        text = json.dumps(workload.program, sort_keys=True)
        if text not in self._variants:
            read = read_program(workload.program)
            if read[0].hash != workload.hash:
                raise Implausible("the program is not that of the hash")
            self._variants[text] = read
        return self._variants[text]

    def _accepted(self, record: Record, read: tuple[Workload, Program]) -> None:
        sent = Submission(
            record.id, record.workload.program, record.target, record.schedule, record.measurement,
            record.protocol, record.trial, record.seed, record.created_at, record.versions,
        )  # fmt: skip
        accept(sent, self._store.target(record.target.fingerprint), read)

    def store_batch(self, batch: list[Record]) -> None:
        if batch:
            self._share(batch)
            new = self._store.add_all(batch)
            self.result.new += new
            self.result.known += len(batch) - new

    def _share(self, batch: list[Record]) -> None:
        """The shared rows as they were exported, not as the first record that is taken has them."""
        for workload in {record.workload.hash for record in batch} - self._shared:
            self._store.add_workload(self._workloads[workload][0])
            self._shared.add(workload)
        for target in {record.target.fingerprint for record in batch} - self._shared:
            self._store.add_target(self._targets[target])
            self._shared.add(target)

    def store_races(self) -> None:
        """Times of different races do not compare: where there was one already, it stands."""
        for (workload, target, cache), times_s in self._races.items():
            there = self._store.raced(workload, target, cache)
            if there <= set(times_s):
                self._store.set_race(times_s)
