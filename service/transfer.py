"""Records as lines of a file: what one database exports, another imports without loss.

A file begins with a header, {"format": "tunesmith-records", "version": 1}; then comes a record a line, in the
form of `GET /v1/records/{id}` and `POST /v1/records`, with what the database adds to it under "store".
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tunesmith.db import Store
from tunesmith.db.portable import Stored
from tunesmith.ir import Program, ProgramError, TunesmithError
from tunesmith.records import Measurement, Peaks, Protocol, Record, Target, Workload
from tunesmith.schedule import IllegalStep, Schedule, ScheduleError
from tunesmith.service.forms import PeaksDocument, RecordUpload
from tunesmith.service.views import record_view
from tunesmith.tuning.observations import Unmapped, record_of
from tunesmith.tuning.tvm_logs import format_of, observation
from tunesmith.tuning.uploads import Implausible, Programs, Submission, accept, check_peaks, check_race

__all__ = ["FORMAT", "VERSION", "Imported", "Importer", "check_header", "line_of", "reasons", "submission"]

FORMAT = "tunesmith-records"
VERSION = 1
_BATCH = 200
_EXAMPLES = 10
_UNWRITABLE = ("max_error", "tolerance")  # may be infinite, or no number, which JSON has no word for


class _StoreLine(BaseModel):
    """What a database adds to a record. ``measurement``: numbers that JSON has no word for, as text."""

    model_config = ConfigDict(extra="forbid")

    race_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    raced: bool = False
    measurement: dict[str, str] = Field(default_factory=dict, max_length=len(_UNWRITABLE))
    program: dict[str, Any] | None = None
    peaks: PeaksDocument | None = None


def line_of(stored: Stored) -> dict[str, Any]:
    record = stored.record
    numbers = {name: getattr(record.measurement, name) for name in _UNWRITABLE}
    odd = {k: str(v) for k, v in numbers.items() if isinstance(v, float) and not math.isfinite(v)}
    added = {"race_s": stored.race_s, "raced": stored.raced or None, "measurement": odd or None}
    if stored.workload is not None and stored.workload.program != record.workload.program:
        added["program"] = stored.workload.program
    if stored.target is not None and stored.target.peaks != record.target.peaks:
        added["peaks"] = asdict(stored.target.peaks)
    line = record_view(record).model_dump(mode="json")
    return {**line, "store": {k: v for k, v in added.items() if v is not None}}


def submission(sent: RecordUpload, who: str | None = None) -> Submission:
    """``who`` uploaded it; None for what comes from a file."""
    measured = sent.measurement.model_dump()
    measured["times_s"] = tuple(math.inf if t is None else t for t in measured["times_s"])
    return Submission(
        id=sent.id,
        program=sent.workload.program,
        target=sent.target.value(),
        schedule=sent.schedule,
        measurement=Measurement(**measured),
        protocol=Protocol(**sent.protocol.model_dump()),
        trial=sent.trial,
        seed=sent.seed,
        created_at=sent.created_at,
        versions=sent.versions if who is None else {**sent.versions, "uploaded_by": who},
    )


def reasons(fault: ValidationError) -> Iterator[str]:
    for error in fault.errors(include_url=False, include_input=False)[:5]:
        yield f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}"


@dataclass
class Imported:
    """``refused``, and ``unmapped`` (lines of foreign logs that say nothing here), count by reason.

    ``examples`` are lines (from 1) that were refused, the first ones; ``nearest`` observations without an
    exact like."""

    new: int = 0
    known: int = 0
    races: int = 0
    observations: int = 0
    nearest: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[int, str]] = field(default_factory=list)

    def refuse(self, number: int, reason: str, detail: str = "") -> None:
        self.refused[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append((number, f"{reason}: {detail}"[:500] if detail else reason))


class Importer:
    """Takes lines into a store: each record for itself, checked as an upload is, some hundreds a transaction.

    It may be stopped at any moment and run again: what is there stays as it is.
    """

    def __init__(self, store: Store, source: str | None = None) -> None:
        """``source``: tunesmith, ansor or metaschedule, if lines of other formats are to be refused."""
        self._store = store
        self._source = source
        self._program = Programs()
        self._targets: dict[str, Target | None] = {}
        self._batch: list[tuple[int, Stored]] = []
        self._raced: dict[str, float] = {}
        self.done = Imported()

    def take(self, lines: Iterable[bytes | None]) -> Iterator[Imported]:
        """Yields after each transaction. None is a line that could not be read.

        Raises ``TunesmithError`` for a file of a newer format.
        """
        for number, line in enumerate(lines, 1):
            if line is None:
                self.done.refuse(number, "the file is damaged here")
            elif line.strip() and not line.startswith(b"#"):  # a comment, in Ansor's logs
                self._line(number, line)
            if len(self._batch) >= _BATCH:
                yield self._flush()
        yield self._flush()
        self.done.races = self._store.settle_races(self._raced.items())

    def _line(self, number: int, line: bytes) -> None:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as fault:
            self.done.refuse(number, "no valid JSON", str(fault))
            return
        if isinstance(document, dict) and "format" in document:
            check_header(document)
            return
        found = format_of(document)
        if self._source is not None and (found or "tunesmith") != self._source:
            self.done.refuse(number, f"not of the format {self._source}")
        elif found is not None:
            self._observe(number, document)
        else:
            self._read(number, document)

    def _observe(self, number: int, document: Any) -> None:
        try:
            record = record_of(observation(document))
        except Unmapped as reason:
            self.done.unmapped[str(reason)] += 1
            return
        self.done.observations += 1
        self.done.nearest += record.versions["mapped"] == "nearest"
        self._batch.append((number, Stored(record)))

    def _read(self, number: int, document: Any) -> None:
        try:
            self._batch.append((number, self._stored(document)))
        except ValidationError as fault:
            self.done.refuse(number, "no record", "; ".join(reasons(fault)))
        except (TunesmithError, RecursionError, OverflowError, ValueError) as fault:
            self.done.refuse(number, _kind(fault), str(fault))

    def _flush(self) -> Imported:
        taken = self._store.take([stored for _, stored in self._batch])
        self.done.new += taken.new
        self.done.known += taken.known
        for number, stored in self._batch:
            if stored.record.id in taken.other:
                self.done.refuse(number, "the id is that of another record", stored.record.id)
            elif stored.raced and stored.race_s is not None:
                self._raced[stored.record.id] = stored.race_s
        self._batch.clear()
        return self.done

    # -- one line -------------------------------------------------------------------------------------------

    def _stored(self, document: Any) -> Stored:
        sent = submission(RecordUpload.model_validate(document))
        added = _StoreLine.model_validate(document.get("store") or {})
        odd: dict[str, Any] = {k: float(v) for k, v in added.measurement.items() if k in _UNWRITABLE}
        if not sent.measurement.ok:
            sent = replace(sent, measurement=replace(sent.measurement, **odd))
        read = self._program(sent.program)
        record = self._known(sent, read) or self._record(sent, read)
        if added.race_s is not None:
            check_race(added.race_s, record, read[1])
        return Stored(
            record, added.race_s, added.raced, self._shared_workload(added, record),
            self._shared_target(added, record),
        )  # fmt: skip

    def _known(self, sent: Submission, read: tuple[Workload, Program]) -> Record | None:
        """What is here under this id, unless it is of something else. It need not be checked again, which is
        most of the work of an import that goes on."""
        found = self._store.known_records([sent.id]).get(sent.id)
        if found is None or found != (read[0].hash, Schedule.from_json(dict(sent.schedule)).hash):
            return None
        return self._store.get(sent.id)

    def _record(self, sent: Submission, read: tuple[Workload, Program]) -> Record:
        """Held against the peaks that are known of the target, and against its own, which it keeps."""
        fingerprint = sent.target.fingerprint
        if fingerprint not in self._targets:
            self._targets[fingerprint] = self._store.target(fingerprint)
        known = self._targets[fingerprint]
        if known is not None and known.peaks != sent.target.peaks:
            accept(sent, known, read)
        return accept(sent, None, read)

    def _shared_workload(self, added: _StoreLine, record: Record) -> Workload | None:
        if added.program is None:
            return None
        workload, _ = self._program(added.program)
        if workload.hash != record.workload.hash:
            raise Implausible("the program under store is that of another workload")
        return workload

    def _shared_target(self, added: _StoreLine, record: Record) -> Target | None:
        if added.peaks is None:
            return None
        target = replace(record.target, peaks=Peaks(**added.peaks.model_dump()))
        check_peaks(target)
        return target


def check_header(document: Mapping[str, Any]) -> None:
    found = document.get("version")
    if document.get("format") != FORMAT or not isinstance(found, int):
        raise TunesmithError(f"the file is of the format {document.get('format')!r}, not {FORMAT}")
    if found > VERSION:
        raise TunesmithError(
            f"the file has version {found} of the format, but this Tunesmith knows up to {VERSION}: "
            "pip install --upgrade tunesmith"
        )


def _kind(fault: Exception) -> str:
    if isinstance(fault, IllegalStep | ScheduleError):
        return "the schedule is not legal for the program"
    if isinstance(fault, Implausible):
        return "implausible"
    return "no valid program" if isinstance(fault, ProgramError) else "no record"
