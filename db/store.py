"""The store: everything that is remembered about tuning, behind one object."""

import datetime as dt
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from tunesmith.db import trials, workloads
from tunesmith.db.additions import Addition, add_records
from tunesmith.db.artifacts import Artifacts
from tunesmith.db.engine import Database, WriteSession
from tunesmith.db.events import Events
from tunesmith.db.figures import Figures, read_figures
from tunesmith.db.jobs import Jobs
from tunesmith.db.keys import Keys
from tunesmith.db.lookup import Kept, Shared, find_best
from tunesmith.db.nearby import find_neighbours
from tunesmith.db.portable import Stored, Taken, add_stored, settle_races, stored_records
from tunesmith.db.prune import Pruned, prune
from tunesmith.db.requests import Requests
from tunesmith.db.schema import ensure_schema
from tunesmith.db.together import Together
from tunesmith.db.trained import TrainedModels
from tunesmith.db.trials import RecordFilter
from tunesmith.db.urls import default_url, normalize, sqlite_path, without_password
from tunesmith.db.values import Best, Fence, Match, Neighbour, Order, Page, RecordSummary, WorkloadSummary
from tunesmith.records import Record, Status, Target, Workload, utc_now

__all__ = ["Store", "open_store"]

_CACHED = 256
_TRIES = 3
_Rows = dict[tuple[str, str], tuple[Workload, Target]]


class Store:
    """Records, workloads and targets; ``jobs``, ``events``, ``artifacts``, ``keys``, ``models`` and
    ``requests`` are stores of their own.

    All methods are thread-safe, and each is one transaction, or part of one with those of other threads at
    the same time: when it returns, its effect survives a kill of the process; when it raises, it had none.
    All raise ``DatabaseLocked`` when other processes keep the database locked, and ``DatabaseUnavailable``
    when it cannot be used.
    """

    def __init__(self, database: Database, clock: Callable[[], dt.datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._stored: _Rows = {}
        self._kept = Kept()
        self._together = Together(self._add)
        self.jobs = Jobs(database, clock)
        self.artifacts = Artifacts(database, clock)
        self.keys = Keys(database, clock)
        self.models = TrainedModels(database, clock)
        self.requests = Requests(database, clock)
        self.events = Events(database, clock)

    @property
    def url(self) -> str:
        """Without password."""
        return without_password(self._database.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections. The store opens new ones when it is used again."""
        self._database.close()

    def ping(self) -> None:
        """Raises ``StoreError`` unless the database answers."""
        self._database.read(lambda session: session.fetch("SELECT 1 FROM alembic_version", {}))

    def figures(self) -> Figures:
        """What an operator watches; cheap, however many records there are."""
        return self._database.read(lambda session: read_figures(session, self._clock()))

    def add_workload(self, workload: Workload) -> None:
        """Idempotent. ``add`` does it as well."""
        self._database.write(lambda session: workloads.add_workload(session, workload, self._clock()))

    def add_target(self, target: Target) -> None:
        """Idempotent; the first one's measured peaks stay. ``add`` does it as well."""
        self._database.write(lambda session: workloads.add_target(session, target, self._clock()))

    def add(self, record: Record, *, fence: Fence | None = None) -> bool:
        """Commits the record of one trial with its workload and target, and counts it in its job.

        Returns False when a record with this id is there already (then nothing changes). Raises
        ``NotFound`` when ``record.job_id`` names a job that is not in this database, and ``LeaseLost``
        when the job is no longer that of ``fence``.
        """
        return self._together((record, fence))

    def add_all(self, records: Iterable[Record], *, fence: Fence | None = None) -> int:
        """Adds all or none, in one transaction; returns how many were new."""
        return sum(self._add([(record, fence) for record in records]))

    def _add(self, batch: Sequence[tuple[Record, Fence | None]]) -> list[bool]:
        fresh: _Rows = {}

        def work(session: WriteSession) -> list[bool]:
            fresh.clear()
            rows = [Addition(r, *self._shared_rows(session, r, fresh), fence) for r, fence in batch]
            return add_records(session, rows, self._clock())

        for left in reversed(range(_TRIES)):
            try:
                added = self._database.write(work)
                break
            except sa.exc.IntegrityError:  # another process added one of them, and now it can be seen
                if not left:
                    raise
        self._remember(fresh)
        return added

    def set_race(
        self, times_s: Mapping[str, float], *, job_id: str | None = None, fence: Fence | None = None
    ) -> None:
        """Makes ``times_s`` (record id → seconds a call) the latest race of its workload and target.

        From then on ``best`` serves its winner: raced records come before unraced ones, whatever their
        trial's time was. Entrants of earlier races that are not in this one become unraced again, since
        times of different races do not compare: enter the incumbent, and the default schedule. Raises
        ``NotFound`` for unknown records, ``BadQuery`` for failed ones and for a mixture of workloads,
        ``LeaseLost`` when the job is no longer that of ``fence``.
        """
        self._database.write(lambda session: trials.set_race(session, times_s, job_id, fence))

    def best(
        self,
        workload_hash: str,
        target: Target | str | None = None,
        within: Match = Match.SAME_ARCH,
        cache: str = "warm",
    ) -> Best | None:
        """What to serve, from the closest target that has a working record; O(log n).

        ``target`` is a target, the fingerprint of a known one, or None for the fastest of all targets.
        ``within`` is the loosest match to accept. Failed trials are never served, nor is a kernel measured
        with cold caches where ``cache`` says warm: the order of kernels differs between the two.
        """
        return self._database.read(
            lambda session: find_best(session.fetch, workload_hash, target, within, cache, self._kept)
        )

    def neighbours(
        self, workload: Workload, target: Target, limit: int = 8, *, observed: bool = False
    ) -> list[Neighbour]:
        """The best of the same computation on other shapes, and on other targets of the architecture.

        Those of the same target come first, then the nearest. However many there are, a few hundred rows of
        an index are read. With ``observed``, observations imported from other programs come last.
        """
        return self._database.read(
            lambda session: find_neighbours(session.fetch, workload, target, limit, observed, self._kept)
        )

    def get(self, record_id: str) -> Record:
        """By id or by its unique beginning. Raises ``NotFound``, ``Ambiguous``.

        Ids begin with the time, so records of one minute differ only after the eighth character.
        """
        return self._database.read(lambda session: trials.find_record(session, record_id))

    def history(self, workload_hash: str, fingerprint: str) -> list[Record]:
        """All trials of a workload on a target, failed ones included, oldest first."""
        return self._database.read(lambda session: trials.history(session, workload_hash, fingerprint))

    def records(
        self,
        *,
        workload: str | None = None,
        target: str | None = None,
        status: Status | None = None,
        job: str | None = None,
        order: Order = Order.CREATED,
        cache: str = "warm",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Record]:
        """Records with these properties, page by page. Raises ``BadCursor``, ``BadQuery``.

        ``Order.TIME`` leaves out failures and what was measured with caches in another state than ``cache``
        (whose times do not compare), and needs a workload or a job.
        """
        chosen = RecordFilter(
            workload=workload, target=target, status=status, job=job, order=order, cache=cache
        )
        return self._database.read(lambda session: trials.list_records(session, chosen, limit, cursor))

    def summaries(
        self,
        *,
        workload: str | None = None,
        target: str | None = None,
        status: Status | None = None,
        job: str | None = None,
        order: Order = Order.CREATED,
        cache: str = "warm",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[RecordSummary]:
        """As ``records``, without schedules and samples."""
        chosen = RecordFilter(
            workload=workload, target=target, status=status, job=job, order=order, cache=cache
        )
        return self._database.read(lambda session: trials.list_summaries(session, chosen, limit, cursor))

    def workload(self, workload_hash: str) -> Workload | None:
        return self._database.read(lambda session: Shared(session.fetch).workload(workload_hash))

    def workloads(
        self, *, structure: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[WorkloadSummary]:
        """With counts and the served time, newest first. ``structure`` finds the same on other shapes."""
        return self._database.read(
            lambda session: workloads.list_workloads(session, structure, limit, cursor)
        )

    def target(self, fingerprint: str) -> Target | None:
        return self._database.read(lambda session: Shared(session.fetch).target(fingerprint))

    def targets(self) -> list[Target]:
        """Every target that was ever measured on."""
        return self._database.read(workloads.list_targets)

    def target_page(self, *, limit: int = 100, cursor: str | None = None) -> Page[Target]:
        """As ``targets``, page by page, newest first."""
        return self._database.read(lambda session: workloads.page_of_targets(session, limit, cursor))

    def workload_summary(self, workload_hash: str) -> WorkloadSummary:
        """Raises ``NotFound``."""
        return self._database.read(lambda session: workloads.workload_summary(session, workload_hash))

    def known_records(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Which of these (a batch: a few hundred) there are, each with its workload and schedule hash."""
        return self._database.read(lambda session: trials.known_records(session, ids))

    def export(
        self, *, workload: str | None = None, target: str | None = None, status: Status | None = None
    ) -> Iterator[Stored]:
        """All records with these properties as they are stored, by id, a few hundred at a time."""
        return stored_records(self._database, workload=workload, target=target, status=status)

    def take(self, batch: Sequence[Stored]) -> Taken:
        """Adds records as another store exported them, in one transaction; those that are here stay as they
        are. Races count after ``settle_races``."""
        return add_stored(self._database, batch)

    def settle_races(self, raced: Iterable[tuple[str, float]]) -> int:
        """Makes races of exported records (id, seconds) count, where there is no later one here."""
        return settle_races(self._database, raced)

    def prune(
        self,
        older_than: dt.timedelta,
        *,
        failed_only: bool = False,
        dry_run: bool = False,
        on_batch: Callable[[Pruned], None] = lambda _: None,
    ) -> Pruned:
        """Forgets old records that nothing needs, events, requests and usage. Many short transactions."""
        before = self._clock() - older_than
        return prune(self._database, before, failed_only=failed_only, dry_run=dry_run, on_batch=on_batch)

    def _shared_rows(self, session: WriteSession, record: Record, fresh: _Rows) -> tuple[Workload, Target]:
        """The rows that ``record`` shares with others, as stored (the first ones stay)."""
        key = record.workload.hash, record.target.fingerprint
        known = self._stored.get(key) or fresh.get(key)
        if known is not None:
            return known
        fresh[key] = workloads.shared_rows(session, record.workload, record.target, self._clock())
        return fresh[key]

    def _remember(self, fresh: _Rows) -> None:
        """Only after the commit: a transaction that is undone leaves no rows behind."""
        if fresh:
            self._stored = fresh if len(self._stored) + len(fresh) > _CACHED else {**self._stored, **fresh}


def open_store(
    url: str | os.PathLike[str] | None = None,
    *,
    create: bool = True,
    read_only: bool = False,
    busy_timeout_s: float = 20.0,
    clock: Callable[[], dt.datetime] = utc_now,
) -> Store:
    """Opens a tuning database and brings its schema up to date.

    ``url`` is ``sqlite:////path/file.db``, ``postgresql://…``, the path of a SQLite file, or None for
    the user's own database. With ``create`` a missing or empty database is set up; several processes
    may do so at once. Raises ``SchemaTooNew`` and ``DatabaseUnavailable``, which say what to do.
    """
    location = normalize(default_url() if url is None else url)
    path = sqlite_path(location)
    if url is None and create and path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    database = Database(location, read_only=read_only, busy_timeout_s=busy_timeout_s)
    try:
        ensure_schema(database, create=create)
    except BaseException:
        database.close()
        raise
    return Store(database, clock)
