"""What is known of kernels, and who is asked for it: the database here, or a service.

``known_of`` is where a command decides between the two. Both answer with the same values, so that what is
printed, and the exit code, are the same too.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tunesmith.cli.database import database_url, open_database
from tunesmith.cli.remote import client_of, service_url, url_words
from tunesmith.db import Best, Order, Page, RecordSummary, WorkloadSummary, quick_best
from tunesmith.ir import Program
from tunesmith.records import Record, Status, Target, Workload

if TYPE_CHECKING:
    from tunesmith.schedule import Schedule

__all__ = ["Database", "Known", "NothingSuggested", "RecordQuery", "Suggestion", "known_of"]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What records of other shapes suggest; nothing of it is measured. As ``tunesmith.tuning.near.Estimate``
    says it; ``source`` is the id of the record that the first schedule comes from, ``origin`` what of."""

    workload: Workload
    target: Target
    schedules: "tuple[Schedule, ...]"
    time_s: float
    loss: float
    basis: str
    source: str
    origin: str
    records: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def gflops(self) -> float:
        return self.workload.flops / self.time_s / 1e9


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Filters of a list of records, and which page of it."""

    workload: str | None
    target: str | None
    job: str | None
    status: Status | None
    order: Order
    cache: str
    limit: int
    cursor: str | None


class NothingSuggested(Exception):
    """No record of another shape helps; the message says why."""


class Known(Protocol):
    """Who is asked. ``url`` is that of a service; ``words`` name it on a command line."""

    url: str | None
    words: list[str]

    def record(self, record_id: str) -> Record:
        """By id or by its unique beginning. Raises a TunesmithError whose exit code is 3."""
        ...

    def best(self, workload_hash: str, target: Target) -> Best | None: ...

    def near(self, program: Program, target: Target) -> Suggestion:
        """Raises NothingSuggested."""
        ...

    def usable(self, record: Record, target: Target) -> Record:
        """The record, if need be after its kernel has been built, verified and timed on this machine. Raises
        TunesmithError when it does not work here."""
        ...

    def confirm(self, program: Program, suggestion: Suggestion) -> tuple[str | None, Record]:
        """Build, verify and time a suggestion here, once. The record, and its id if it is kept."""
        ...

    def records(self, query: RecordQuery) -> Page[RecordSummary]: ...
    def workloads(self, limit: int, cursor: str | None) -> Page[WorkloadSummary]: ...


@contextmanager
def known_of(args: argparse.Namespace) -> Iterator[Known]:
    """The service that ``--url`` or TUNESMITH_URL names, else the database."""
    if service_url(args) is None:
        yield Database(args.db)
        return
    from tunesmith.cli.service import Service

    with client_of(args) as client:
        yield Service(client, url_words(args))


class Database:
    """The database of this machine."""

    def __init__(self, flag: str | None) -> None:
        self._flag = flag
        self.url: str | None = None
        self.words: list[str] = []

    def record(self, record_id: str) -> Record:
        with open_database(self._flag) as store:
            return store.get(record_id)

    def best(self, workload_hash: str, target: Target) -> Best | None:
        return quick_best(database_url(self._flag), workload_hash, target)

    def near(self, program: Program, target: Target) -> Suggestion:
        from tunesmith.tuning.near import NothingNear, estimate
        from tunesmith.tuning.neighbours import describe

        with open_database(self._flag) as store:
            try:
                found = estimate(program, target, store)
            except NothingNear as error:
                raise NothingSuggested(str(error)) from error
        return Suggestion(
            found.workload, target, found.schedules, found.time_s, found.loss, found.basis,
            found.source.best.record.id, describe(found.source),
            tuple(n.best.record.id for n in found.neighbours), found.skipped,
        )  # fmt: skip

    def usable(self, record: Record, target: Target) -> Record:
        return record

    def confirm(self, program: Program, suggestion: Suggestion) -> tuple[str | None, Record]:
        from tunesmith.tuning.near import confirm

        with open_database(self._flag) as store:
            record = confirm(program, suggestion, store)
        return record.id, record

    def records(self, query: RecordQuery) -> Page[RecordSummary]:
        with open_database(self._flag) as store:
            return store.summaries(
                workload=query.workload, target=query.target, status=query.status, job=query.job,
                order=query.order, cache=query.cache, limit=query.limit, cursor=query.cursor,
            )  # fmt: skip

    def workloads(self, limit: int, cursor: str | None) -> Page[WorkloadSummary]:
        with open_database(self._flag) as store:
            return store.workloads(limit=limit, cursor=cursor)
