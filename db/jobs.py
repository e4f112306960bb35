"""Jobs: durable rows that workers lease, one transaction for every change.

A worker holds a job while its lease lasts and its name stands in ``lease_owner``; every change it makes
is conditional on that, so a worker that was presumed dead cannot overwrite its successor's work.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import plain_text
from tunesmith.db.engine import Database, ReadSession, WriteSession
from tunesmith.db.job_rows import (
    LONG,
    NO_LEASE,
    best_columns,
    change,
    expired,
    forget_key,
    held_job,
    job_from_row,
    load_job,
    move,
    repeated,
    take_back,
    update_held,
)
from tunesmith.db.pages import Keyset
from tunesmith.db.states import JobState, check_transition
from tunesmith.db.values import Job, JobSpec, Page
from tunesmith.db.workloads import add_workload
from tunesmith.records import Record, new_id

__all__ = ["LEASE_S", "Jobs"]

LEASE_S = 60.0
"""How long a worker may be silent before its job is given to another."""

_KEY_LIFE = dt.timedelta(hours=24)
_table = models.job


class Jobs:
    """The job table. Every method is one transaction and thread-safe; ``clock`` gives the time in UTC."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    def create(
        self, spec: JobSpec, *, idempotency_key: str | None = None, request_sha256: str | None = None
    ) -> tuple[Job, bool]:
        """Queues a job; returns it, and whether it is new.

        With a key, a repeated request within 24 hours gets the job of the first; raises
        ``IdempotencyMismatch`` when the key came with another request.
        """
        now = self._clock()
        job_id = new_id()
        row = {
            "id": job_id,
            "kind": spec.kind,
            "state": JobState.QUEUED.value,
            "workload_id": spec.workload.hash,
            "name": spec.workload.name,
            "source": spec.source,
            "options": spec.options,
            "seed": spec.seed,
            "trials_total": spec.trials,
            "idempotency_key": idempotency_key,
            "request_sha256": request_sha256,
            "created_at": now,
            "updated_at": now,
        }

        def work(session: WriteSession) -> tuple[Job, bool]:
            add_workload(session, spec.workload, now)
            if idempotency_key is not None:
                forget_key(session, idempotency_key, now - _KEY_LIFE)
            if session.insert_new(_table, row):
                return load_job(session, job_id), True
            assert idempotency_key is not None, "ids are unique"
            return repeated(session, idempotency_key, request_sha256), False

        return self._database.write(work)

    def get(self, job_id: str) -> Job:
        """Raises ``NotFound``."""
        return self._database.read(lambda session: load_job(session, job_id))

    def list(
        self, *, state: JobState | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[Job]:
        """Newest first, with neither source nor result, which may be long."""
        keyset = Keyset(
            {"of": "job", "state": state},
            [_table.c.created_at, _table.c.id],
            [dt.datetime, str],
            descending=True,
        )
        query = sa.select(*(column for column in _table.c if column.name not in LONG))
        if state is not None:
            query = query.where(_table.c.state == state.value)

        def work(session: ReadSession) -> Page[Job]:
            rows, following = keyset.page(session, query, limit, cursor)
            return Page(tuple(job_from_row(row) for row in rows), following)

        return self._database.read(work)

    def claim_next(self, owner: str, *, lease_s: float = LEASE_S) -> Job | None:
        """Takes the longest waiting job for ``owner``, or None. Two workers never get the same one."""
        now = self._clock()
        waiting = (
            sa.select(_table)
            .where(_table.c.state == JobState.QUEUED.value)
            .order_by(_table.c.created_at, _table.c.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )

        def work(session: WriteSession) -> Job | None:
            row = session.first(waiting)
            if row is None:
                return None
            leased = {
                "lease_owner": owner,
                "lease_until": now + dt.timedelta(seconds=lease_s),
                "heartbeat_at": now,
                "started_at": row["started_at"] or now,
                "attempt": row["attempt"] + 1,
            }
            return move(session, job_from_row(row), JobState.RUNNING, now, **leased)

        return self._database.write(work) if self._any(JobState.QUEUED) else None

    def heartbeat(self, job_id: str, owner: str, *, lease_s: float = LEASE_S) -> Job:
        """Renews the lease. The returned job says whether cancelling was requested.

        Raises ``LeaseLost`` when ``owner`` no longer holds the job.
        """
        now = self._clock()
        lease = {"lease_until": now + dt.timedelta(seconds=lease_s), "heartbeat_at": now}
        return self._database.write(lambda session: update_held(session, job_id, owner, lease))

    def progress(
        self,
        job_id: str,
        owner: str,
        *,
        phase: str,
        trials_seen: int,
        elapsed_s: float,
        untuned_s: float | None = None,
        best: Record | None = None,
    ) -> Job:
        """Records how far the tuner is. ``best`` may be of an earlier job. Raises ``LeaseLost``."""
        values = {
            "phase": phase,
            "trials_seen": trials_seen,
            "elapsed_s": elapsed_s,
            "untuned_s": untuned_s,
            "updated_at": self._clock(),
            "version": _table.c.version + 1,
            **best_columns(best),
        }
        return self._database.write(lambda session: update_held(session, job_id, owner, values))

    def finish(
        self,
        job_id: str,
        owner: str,
        state: JobState,
        *,
        result: dict[str, Any] | None = None,
        best: Record | None = None,
        error: str = "",
    ) -> Job:
        """Ends a job with a terminal state. Raises ``LeaseLost`` and ``IllegalTransition``."""
        now = self._clock()
        ended = {
            "result": result,
            "error": plain_text(error),
            "finished_at": now,
            **best_columns(best),
            **NO_LEASE,
        }
        return self._database.write(
            lambda session: move(session, held_job(session, job_id, owner), state, now, **ended)
        )

    def release(self, job_id: str, owner: str) -> Job:
        """Gives a running job back to the queue, to be continued; does not count as an attempt."""
        now = self._clock()

        def work(session: WriteSession) -> Job:
            job = held_job(session, job_id, owner)
            if job.cancel_requested:
                return move(session, job, JobState.CANCELLED, now, finished_at=now, **NO_LEASE)
            return move(session, job, JobState.QUEUED, now, attempt=job.attempt - 1, **NO_LEASE)

        return self._database.write(work)

    def cancel(self, job_id: str) -> Job:
        """Cancels a queued job at once and asks the worker of a running one to stop. Idempotent.

        Raises ``NotFound``, and ``IllegalTransition`` for a job that succeeded or failed.
        """
        now = self._clock()

        def work(session: WriteSession) -> Job:
            job = load_job(session, job_id, lock=True)
            if job.state is JobState.CANCELLED or (job.cancel_requested and not job.done):
                return job
            check_transition(job.id, job.state, JobState.CANCELLED)
            if job.state is JobState.QUEUED:
                return move(session, job, JobState.CANCELLED, now, cancel_requested=True, finished_at=now)
            return change(session, job, now, cancel_requested=True)

        return self._database.write(work)

    def requeue_abandoned(self, is_dead: Callable[[str], bool] = lambda owner: False) -> tuple[Job, ...]:
        """Takes running jobs from workers whose lease ran out or of whom ``is_dead(owner)`` is known.

        They are queued again; cancelled, where that was requested; failed after ``MAX_ATTEMPTS``.
        """
        now = self._clock()
        running = (
            sa.select(_table)
            .where(_table.c.state == JobState.RUNNING.value)
            .order_by(_table.c.id)
            .with_for_update()
        )

        def work(session: WriteSession) -> tuple[Job, ...]:
            jobs = [job_from_row(row) for row in session.rows(running)]
            lost = [job for job in jobs if expired(job, now) or is_dead(job.lease_owner or "")]
            return tuple(take_back(session, job, now) for job in lost)

        return self._database.write(work) if self._any(JobState.RUNNING) else ()

    def _any(self, state: JobState) -> bool:
        """A look without the write lock, which an idle worker would otherwise take all the time."""
        query = sa.select(_table.c.id).where(_table.c.state == state.value).limit(1)
        return self._database.read(lambda session: session.first(query) is not None)
