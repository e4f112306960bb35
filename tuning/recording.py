"""Trials as records: how they are stored as they end, and what of the past compares with them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol as Interface

from tunesmith.records import Protocol, Record, Target, Workload, new_id, utc_now
from tunesmith.schedule import Schedule, ScheduleError
from tunesmith.tuning.pipeline import Trial
from tunesmith.tuning.workload import versions

__all__ = ["KeepsNothing", "Recorder", "TrialStore", "comparable", "schedule_of"]


class TrialStore(Interface):
    """What recording needs of a database. Called from one thread; every ``add`` is durable."""

    def add_workload(self, workload: Workload) -> None: ...
    def add_target(self, target: Target) -> None: ...
    def add(self, record: Record) -> bool: ...
    def history(self, workload_hash: str, fingerprint: str) -> list[Record]: ...


class KeepsNothing:
    """A store for trials that are only looked at."""

    def add_workload(self, workload: Workload) -> None:
        return

    def add_target(self, target: Target) -> None:
        return

    def add(self, record: Record) -> bool:
        return True

    def history(self, workload_hash: str, fingerprint: str) -> list[Record]:
        return []


@dataclass(frozen=True)
class Recorder:
    """Stores the trials of one workload, and finds those on record."""

    store: TrialStore
    workload: Workload
    target: Target
    protocol: Protocol
    seed: int
    job_id: str | None = None
    versions: dict[str, str] = field(default_factory=versions)

    def introduce(self) -> None:
        """Make workload and target known before there is any trial."""
        self.store.add_workload(self.workload)
        self.store.add_target(self.target)

    def record(self, trial: Trial) -> Record:
        """Store a finished trial."""
        assert trial.measurement is not None
        measurement = replace(trial.measurement, build_s=trial.build_s)
        record = Record(
            new_id(), self.workload, self.target, trial.schedule.to_json(), trial.schedule.hash, measurement,
            self.protocol, trial.number, self.seed, utc_now(), self.versions, self.job_id,
        )  # fmt: skip
        self.store.add(record)
        return record

    def history(self, own: bool = False) -> list[Record]:
        """Trials on record that compare with new ones. With ``own`` only those of the job itself, which goes
        on after an interruption."""
        if own and self.job_id is None:
            return []
        records = comparable(self.store.history(self.workload.hash, self.target.fingerprint), self.protocol)
        return [r for r in records if r.job_id == self.job_id] if own else records


def comparable(records: Sequence[Record], protocol: Protocol) -> list[Record]:
    """Those measured with the same caches: kernels rank differently with cold ones."""
    return [r for r in records if r.protocol.cache == protocol.cache]


def schedule_of(record: Record) -> Schedule | None:
    """None for one written by another version: it counts, but cannot be replayed."""
    try:
        return Schedule.from_json(record.schedule)
    except ScheduleError:
        return None
