"""What the store returns besides the values of ``records``. Plain frozen data."""

import datetime as dt
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from tunesmith.db.states import TERMINAL, JobState, TaskState
from tunesmith.records import Record, Status, Workload

__all__ = [
    "Artifact",
    "Best",
    "Fence",
    "Job",
    "JobEvent",
    "JobSpec",
    "JobTask",
    "Match",
    "Neighbour",
    "Order",
    "Page",
    "RecordSummary",
    "TaskSpec",
    "WorkloadSummary",
]

T = TypeVar("T")


class Match(StrEnum):
    """How close the target of a found record is to the one asked for, closest first."""

    EXACT = "exact"  # the same fingerprint
    SAME_CPU = "same_cpu"  # the same CPU, features and thread count
    SAME_ARCH = "same_arch"  # the same instruction set family only
    ANY = "any"  # no target was asked for

    def covers(self, other: "Match") -> bool:
        """Whether a search that accepts ``self`` accepts ``other``."""
        order = list(Match)
        return order.index(other) <= order.index(self)


class Order(StrEnum):
    """``CREATED``: newest first. ``TIME``: as served, that is raced before unraced, then fastest first."""

    CREATED = "created"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """``next_cursor`` is None exactly when nothing follows."""

    items: tuple[T, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """What is served for a workload. ``time_s`` is the time of the final race when ``raced``,
    otherwise the median of the record's samples."""

    record: Record
    match: Match
    time_s: float
    raced: bool

    @property
    def gflops(self) -> float:
        return self.record.workload.flops / self.time_s / 1e9


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The best of a workload of the same structure. ``distance`` of the shapes: 1 is a factor of two."""

    best: Best
    distance: float


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """A record without its documents. Times are None for a failure, ``race_s`` also when never raced."""

    id: str
    workload_hash: str
    workload_name: str
    target_fingerprint: str
    job_id: str | None
    status: Status
    trial: int
    time_s: float | None
    race_s: float | None
    gflops: float | None
    schedule_hash: str
    error: str
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """``best_s`` and ``best_gflops`` are of the served record over all targets."""

    hash: str
    structure: str
    name: str
    dtype: str
    flops: int
    min_bytes: int
    n_records: int
    n_failed: int
    best_record_id: str | None
    best_s: float | None
    best_gflops: float | None
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes built from a record. ``data`` is what ``sha256`` is the digest of."""

    id: str
    record_id: str
    kind: str
    sha256: str
    data: bytes
    created_at: dt.datetime

    @property
    def size_bytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One computation of a job, and how often a call of the whole calls it."""

    workload: Workload
    name: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job is to do. ``source`` is the request's own words (program text or operator), from which
    a worker rebuilds the programs; ``options`` is JSON; ``trials`` the budget, None for no limit.

    ``tasks`` are what there is to tune, if it is not ``workload`` alone; each workload is in it once.
    ``measures`` names how is measured: two jobs that say the same about one workload never run at the same
    time, so that the second finds what the first recorded. None for a job that shares nothing.
    """

    workload: Workload
    source: dict[str, Any]
    options: dict[str, Any]
    trials: int | None
    seed: int = 0
    kind: str = "tune"
    tasks: tuple[TaskSpec, ...] = ()
    priority: int = 0
    measures: str | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """A worker's right to write for a job: void as soon as another has claimed the job, or it has ended."""

    job_id: str
    owner: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the job table.

    ``n_trials`` and ``n_failed`` count this job's records; ``trials_seen`` counts as the tuner does, with
    trials recorded before the job. ``elapsed_s`` adds up over restarts. ``version`` grows with every change.
    ``wanted`` is what the user asked of a running job: to become paused, stopped or cancelled. ``attempt``
    counts how often it was claimed, and grows only; ``strikes`` those attempts that ended without a word and
    without a new trial, in a row. ``end_to_end_s`` is of a job with several tasks: the sum of weight × best.
    """

    id: str
    kind: str
    state: JobState
    owner: str
    workload_hash: str
    name: str
    source: dict[str, Any]
    options: dict[str, Any]
    seed: int
    priority: int
    trials_total: int | None
    n_trials: int
    n_failed: int
    trials_seen: int
    best_record_id: str | None
    best_s: float | None
    best_gflops: float | None
    end_to_end_s: float | None
    phase: str
    elapsed_s: float
    untuned_s: float | None
    wanted: JobState | None
    attempt: int
    strikes: int
    claimed_trials: int
    result: dict[str, Any] | None
    error: str
    version: int
    lease_owner: str | None
    lease_until: dt.datetime | None
    heartbeat_at: dt.datetime | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    updated_at: dt.datetime = field(compare=False)

    @property
    def done(self) -> bool:
        return self.state in TERMINAL

    @property
    def fence(self) -> Fence:
        return Fence(self.id, self.lease_owner or "", self.attempt)


@dataclass(frozen=True, slots=True)
class JobTask:
    """One computation of a job. Counts are of the job's own records, the best may be of an earlier one."""

    id: str
    job_id: str
    workload_hash: str
    name: str
    position: int
    weight: float
    state: TaskState
    n_trials: int
    n_failed: int
    best_record_id: str | None
    best_s: float | None
    best_gflops: float | None
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One thing that happened to a job. Ids grow in the order in which events become known.

    ``kind`` is ``state`` (the job moved, or was asked to), ``best`` (a faster candidate) or ``progress``.
    """

    id: int
    job_id: str
    owner: str
    kind: str
    document: dict[str, Any]
    at: dt.datetime
