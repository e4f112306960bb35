"""Jobs: durable rows that workers lease, one transaction for every change.

A worker holds a job while its name stands in ``lease_owner`` and nobody has claimed it since. Every change
it makes is conditional on that (its ``Fence``), so a worker that was presumed dead can neither overwrite
its successor's work nor add to it.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import plain_text
from tunesmith.db.engine import Database, ReadSession, WriteSession
from tunesmith.db.events import tell
from tunesmith.db.job_rows import (
    LONG,
    NO_LEASE,
    add_tasks,
    best_columns,
    change,
    check_version,
    expired,
    forget_key,
    held_job,
    job_from_row,
    load_job,
    load_tasks,
    move,
    repeated,
    set_task_bests,
    take_back,
    update_held,
)
from tunesmith.db.pages import Keyset
from tunesmith.db.states import JobState, TaskState, Verb, check_transition
from tunesmith.db.values import Fence, Job, JobSpec, JobTask, Page
from tunesmith.db.workloads import add_workload
from tunesmith.records import Record, new_id

__all__ = ["LEASE_S", "Jobs"]

LEASE_S = 60.0
"""How long a worker may be silent before its job is given to another."""

_KEY_LIFE = dt.timedelta(hours=24)
_CLAIM_KEY = 0x74756E65636C6D  # of PostgreSQL's advisory locks: "tuneclm"
_table = models.job
_task = models.task


class Jobs:
    """The job table. Every method is one transaction and thread-safe; ``clock`` gives the time in UTC.

    ``owner`` of a job is who submitted it: methods that take one see only his jobs, or all for None.
    """

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    # -- for users ----------------------------------------------------------------------------------------

    def create(
        self,
        spec: JobSpec,
        *,
        owner: str = "",
        idempotency_key: str | None = None,
        request_sha256: str | None = None,
    ) -> tuple[Job, bool]:
        """Queues a job; returns it, and whether it is new.

        With a key, a repeated request of the same owner within 24 hours gets the job of the first; raises
        ``IdempotencyMismatch`` when the key came with another request.
        """
        now = self._clock()
        job_id = new_id()
        row = {
            "id": job_id,
            "kind": spec.kind,
            "state": JobState.QUEUED.value,
            "owner": owner,
            "workload_id": spec.workload.hash,
            "name": spec.workload.name if not spec.tasks else _names(spec),
            "source": spec.source,
            "options": spec.options,
            "seed": spec.seed,
            "priority": spec.priority,
            "measures": spec.measures,
            "trials_total": spec.trials,
            "idempotency_key": idempotency_key,
            "request_sha256": request_sha256,
            "created_at": now,
            "updated_at": now,
        }

        def work(session: WriteSession) -> tuple[Job, bool]:
            for workload in (spec.workload, *(task.workload for task in spec.tasks)):
                add_workload(session, workload, now)
            if idempotency_key is not None:
                forget_key(session, owner, idempotency_key, now - _KEY_LIFE)
            if not session.insert_new(_table, row):
                assert idempotency_key is not None, "ids are unique"
                return repeated(session, owner, idempotency_key, request_sha256), False
            add_tasks(session, job_id, spec, now)
            tell(session, job_id, owner, "state", {"state": "queued", "previous": None, "version": 1}, now)
            return load_job(session, job_id), True

        return self._database.write(work)

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        """Raises ``NotFound``."""
        return self._database.read(lambda session: load_job(session, job_id, owner=owner))

    def tasks(self, job_id: str, *, owner: str | None = None) -> tuple[JobTask, ...]:
        """In the order of the request. Raises ``NotFound``."""

        def work(session: ReadSession) -> tuple[JobTask, ...]:
            return load_tasks(session, load_job(session, job_id, owner=owner).id)

        return self._database.read(work)

    def list(
        self,
        *,
        owner: str | None = None,
        state: JobState | None = None,
        priority: int | None = None,
        workload: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Job]:
        """Newest first, with neither source nor result, which may be long. ``workload``: of any task."""
        given = {"owner": owner, "state": state, "priority": priority, "workload": workload}
        keyset = Keyset(
            {"of": "job", **given}, [_table.c.created_at, _table.c.id], [dt.datetime, str], descending=True
        )
        query = sa.select(*(column for column in _table.c if column.name not in LONG))
        for name in ("owner", "state", "priority"):
            if given[name] is not None:
                query = query.where(_table.c[name] == given[name])
        if workload is not None:
            query = query.where(
                sa.exists().where(_task.c.job_id == _table.c.id, _task.c.workload_id == plain_text(workload))
            )

        def work(session: ReadSession) -> Page[Job]:
            rows, following = keyset.page(session, query, limit, cursor)
            return Page(tuple(job_from_row(row) for row in rows), following)

        return self._database.read(work)

    def ask(self, job_id: str, verb: Verb, *, owner: str | None = None, version: int | None = None) -> Job:
        """Pauses, resumes, stops or cancels a job; asks the worker of a running one to. Idempotent.

        A stronger request replaces a weaker one (cancel, stop, pause). Raises ``NotFound``,
        ``IllegalTransition`` for a job that ended otherwise, and ``VersionMismatch`` unless the job is at
        ``version``.
        """
        now = self._clock()

        def work(session: WriteSession) -> Job:
            job = load_job(session, job_id, owner=owner, lock=True)
            check_version(job, version)
            return _resume(session, job, now) if verb is Verb.RESUME else _end(session, job, verb, now)

        return self._database.write(work)

    # -- for workers --------------------------------------------------------------------------------------

    def claim_next(self, worker: str, *, lease_s: float = LEASE_S) -> Job | None:
        """Takes the most urgent waiting job, of these the oldest, for ``worker``; None if there is none.

        Two workers never get the same one. Jobs that share their measurements with a running one wait.
        """
        now = self._clock()
        waiting = _waiting()

        def work(session: WriteSession) -> Job | None:
            if session.is_postgres:  # two claims at once could not see that they share measurements
                session.fetch("SELECT pg_advisory_xact_lock(:key)", {"key": _CLAIM_KEY})
            row = session.first(waiting)
            if row is None:
                return None
            leased = {
                "lease_owner": worker,
                "lease_until": now + dt.timedelta(seconds=lease_s),
                "heartbeat_at": now,
                "started_at": row["started_at"] or now,
                "attempt": row["attempt"] + 1,
                "claimed_trials": row["n_trials"],
            }
            return move(session, job_from_row(row), JobState.RUNNING, now, **leased)

        return self._database.write(work) if self._any(JobState.QUEUED) else None

    def heartbeat(self, fence: Fence, *, lease_s: float = LEASE_S) -> Job:
        """Renews the lease. The returned job says what is wanted of it.

        A lease that ran out is renewed too, as long as nobody else has the job: it was then the database
        that could not be reached. Raises ``LeaseLost`` otherwise.
        """
        now = self._clock()
        lease = {"lease_until": now + dt.timedelta(seconds=lease_s), "heartbeat_at": now}
        return self._database.write(lambda session: update_held(session, fence, lease))

    def progress(
        self,
        fence: Fence,
        *,
        phase: str,
        trials_seen: int,
        elapsed_s: float,
        untuned_s: float | None = None,
        best: Record | None = None,
        end_to_end_s: float | None = None,
        announce: bool = True,
    ) -> Job:
        """Records how far the tuner is, and tells listeners if ``announce``. ``best`` may be of an earlier
        job. Raises ``LeaseLost``."""
        now = self._clock()
        values = {
            "phase": phase,
            "trials_seen": trials_seen,
            "elapsed_s": elapsed_s,
            "untuned_s": untuned_s,
            "end_to_end_s": end_to_end_s,
            "updated_at": now,
            "version": _table.c.version + 1,
            **best_columns(best),
        }

        def work(session: WriteSession) -> Job:
            job = update_held(session, fence, values)
            if announce:
                tell(session, job.id, job.owner, "progress", _progress(job), now)
            return job

        return self._database.write(work)

    def set_task(self, fence: Fence, position: int, state: TaskState) -> None:
        """Says where a task of several stands; what ran before it waits. Raises ``LeaseLost``."""

        def work(session: WriteSession) -> None:
            mine = sa.update(_task).where(_task.c.job_id == held_job(session, fence).id)
            if state is TaskState.RUNNING:
                ran = mine.where(_task.c.state == TaskState.RUNNING.value)
                session.run(ran.values(state=TaskState.WAITING.value))
            session.run(mine.where(_task.c.position == position).values(state=state.value))

        self._database.write(work)

    def finish(
        self,
        fence: Fence,
        state: JobState,
        *,
        result: dict[str, Any] | None = None,
        best: Record | None = None,
        bests: Sequence[Record] = (),
        error: str = "",
    ) -> Job:
        """Ends or pauses a job; ``bests`` are of its tasks. Raises ``LeaseLost``, ``IllegalTransition``."""
        now = self._clock()
        ended = {"result": result, "error": plain_text(error), "strikes": 0, **best_columns(best), **NO_LEASE}

        def work(session: WriteSession) -> Job:
            job = held_job(session, fence)
            set_task_bests(session, job.id, bests or ([] if best is None else [best]))
            return move(session, job, state, now, **ended)

        return self._database.write(work)

    def release(self, fence: Fence) -> Job:
        """Gives a running job up, to be continued: by whoever claims it, unless the user wants otherwise."""
        now = self._clock()

        def work(session: WriteSession) -> Job:
            job = held_job(session, fence)
            return move(session, job, job.wanted or JobState.QUEUED, now, strikes=0, **NO_LEASE)

        return self._database.write(work)

    def requeue_abandoned(
        self,
        is_dead: Callable[[str], bool] = lambda worker: False,
        is_alive: Callable[[str], bool] = lambda worker: False,
    ) -> tuple[Job, ...]:
        """Takes running jobs from workers whose lease ran out or of whom ``is_dead(worker)`` is known.

        They are queued again, or become what was asked of them; failed after ``MAX_STRIKES``. A worker of
        whom ``is_alive`` is known keeps its job: it was the database that it could not reach.
        """
        now = self._clock()
        running = (
            sa.select(_table)
            .where(_table.c.state == JobState.RUNNING.value)
            .order_by(_table.c.created_at, _table.c.id)
            .with_for_update(skip_locked=True)
        )

        def is_lost(job: Job) -> bool:
            worker = job.lease_owner or ""
            return is_dead(worker) or (expired(job, now) and not is_alive(worker))

        def work(session: WriteSession) -> tuple[Job, ...]:
            jobs = [job_from_row(row) for row in session.rows(running)]
            return tuple(take_back(session, job, now) for job in jobs if is_lost(job))

        return self._database.write(work) if self._any(JobState.RUNNING) else ()

    def _any(self, state: JobState) -> bool:
        """A look without the write lock, which an idle worker would otherwise take all the time."""
        query = sa.select(_table.c.id).where(_table.c.state == state.value).limit(1)
        return self._database.read(lambda session: session.first(query) is not None)


def _waiting() -> sa.Select[Any]:
    """The next job: most urgent, then oldest; none that would measure what a running one does."""
    mine, theirs, other = _task.alias("mine"), _task.alias("theirs"), _table.alias("other")
    is_shared = sa.exists().where(
        mine.c.job_id == _table.c.id,
        theirs.c.workload_id == mine.c.workload_id,
        other.c.id == theirs.c.job_id,
        other.c.state == JobState.RUNNING.value,
        other.c.measures == _table.c.measures,
    )
    return (
        sa.select(_table)
        .where(_table.c.state == JobState.QUEUED.value, ~is_shared)
        .order_by(_table.c.priority.desc(), _table.c.created_at, _table.c.id)
        .limit(1)
        .with_for_update(skip_locked=True, of=_table)
    )


def _resume(session: WriteSession, job: Job, now: dt.datetime) -> Job:
    if job.state is JobState.PAUSED:
        return move(session, job, JobState.QUEUED, now)
    if job.state is JobState.RUNNING and job.wanted is JobState.PAUSED:
        return change(session, job, now, wanted="")
    if job.wanted is not None or job.done:
        check_transition(job.id, job.wanted or job.state, JobState.QUEUED)
    return job


_STRENGTH = (None, JobState.PAUSED, JobState.STOPPED, JobState.CANCELLED)


def _end(session: WriteSession, job: Job, verb: Verb, now: dt.datetime) -> Job:
    aim = verb.aim
    if job.state is aim:
        return job
    check_transition(job.id, job.state, aim)
    if job.state is not JobState.RUNNING:
        return move(session, job, aim, now)
    if job.wanted is aim:
        return job
    if _STRENGTH.index(job.wanted) > _STRENGTH.index(aim):
        check_transition(job.id, job.wanted or job.state, aim)
    return change(session, job, now, wanted=aim.value)


def _names(spec: JobSpec) -> str:
    names = [task.name or task.workload.name for task in spec.tasks]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _progress(job: Job) -> dict[str, Any]:
    return {
        "phase": job.phase,
        "trials": max(job.trials_seen, job.n_trials),
        "trials_total": job.trials_total,
        "measured": job.n_trials,
        "failed": job.n_failed,
        "elapsed_s": job.elapsed_s,
        "untuned_s": job.untuned_s,
        "best_s": job.best_s,
        "end_to_end_s": job.end_to_end_s,
    }
