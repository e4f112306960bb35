"""Rows of the job and task tables inside a transaction: read under a lock, checked, changed."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import plain_text
from tunesmith.db.engine import ReadSession, Row, WriteSession
from tunesmith.db.errors import IdempotencyMismatch, LeaseLost, NotFound, VersionMismatch
from tunesmith.db.events import tell
from tunesmith.db.states import TERMINAL, JobState, TaskState, check_transition
from tunesmith.db.values import Fence, Job, JobSpec, JobTask, TaskSpec
from tunesmith.records import Record, new_id

__all__ = [
    "LONG",
    "MAX_STRIKES",
    "NO_LEASE",
    "add_tasks",
    "best_columns",
    "change",
    "check_version",
    "expired",
    "forget_key",
    "held_job",
    "job_from_row",
    "load_job",
    "load_tasks",
    "move",
    "repeated",
    "set_task_bests",
    "take_back",
    "update_held",
]

MAX_STRIKES = 5
"""A job whose worker died this often in a row, without a new trial, fails: it probably is what kills them."""

_table = models.job
_task = models.task
LONG: dict[str, Any] = {"source": {}, "result": None}
"""What lists leave out, and what stands there instead."""

_RENAMED = {"workload_hash": "workload_id"}

NO_LEASE: dict[str, Any] = {"lease_owner": None, "lease_until": None, "phase": "", "wanted": ""}


def best_columns(best: Record | None) -> dict[str, Any]:
    if best is None:
        return {}
    return {"best_record_id": best.id, "best_s": best.time_s, "best_gflops": best.gflops}


def expired(job: Job, now: dt.datetime) -> bool:
    return job.lease_until is None or job.lease_until < now


def take_back(session: WriteSession, job: Job, now: dt.datetime) -> Job:
    """From a worker that is gone: to where the user wants it, or back to the queue."""
    strikes = 0 if job.n_trials > job.claimed_trials else job.strikes + 1
    ended: dict[str, Any] = {**NO_LEASE, "strikes": strikes}
    if job.wanted is not None:
        return move(session, job, job.wanted, now, **ended)
    if strikes >= MAX_STRIKES:
        error = f"{strikes} attempts ended without a word: the worker was killed, or lost the database"
        return move(session, job, JobState.FAILED, now, error=error, **ended)
    return move(session, job, JobState.QUEUED, now, **ended)


def load_job(session: ReadSession, job_id: str, *, owner: str | None = None, lock: bool = False) -> Job:
    """Another owner's job is as good as none."""
    query = sa.select(_table).where(_table.c.id == plain_text(job_id))
    if owner is not None:
        query = query.where(_table.c.owner == owner)
    row = session.first(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound("job", job_id)
    return job_from_row(row)


def check_version(job: Job, version: int | None) -> None:
    if version is not None and version != job.version:
        raise VersionMismatch(f"job {job.id}", version, job.version)


def held_job(session: WriteSession, fence: Fence) -> Job:
    job = load_job(session, fence.job_id, lock=True)
    if job.state is not JobState.RUNNING or job.fence != fence:
        raise LeaseLost(job.id, fence.owner)
    return job


def update_held(session: WriteSession, fence: Fence, values: dict[str, Any]) -> Job:
    held = (
        _table.c.id == fence.job_id,
        _table.c.lease_owner == fence.owner,
        _table.c.attempt == fence.attempt,
        _table.c.state == JobState.RUNNING.value,
    )
    if not session.run(sa.update(_table).where(*held).values(**values)):
        load_job(session, fence.job_id)
        raise LeaseLost(fence.job_id, fence.owner)
    return load_job(session, fence.job_id)


def move(session: WriteSession, job: Job, state: JobState, now: dt.datetime, **values: Any) -> Job:
    """To another state, with its tasks; whoever listens is told."""
    check_transition(job.id, job.state, state)
    if state in TERMINAL:
        values["finished_at"] = now
    _move_tasks(session, job, state)
    return change(session, job, now, state=state.value, **values)


def change(session: WriteSession, job: Job, now: dt.datetime, **values: Any) -> Job:
    """Writes onto the version that was read; the row is locked, so a miss is a mistake of ours."""
    same = (_table.c.id == job.id, _table.c.version == job.version, _table.c.state == job.state.value)
    written = sa.update(_table).where(*same).values(version=job.version + 1, updated_at=now, **values)
    assert session.run(written) == 1, "a locked row changed"
    changed = load_job(session, job.id)
    told = {
        "state": changed.state.value,
        "previous": job.state.value,
        "requested": changed.wanted.value if changed.wanted else None,
        "attempt": changed.attempt,
        "error": changed.error or None,
        "version": changed.version,
    }
    tell(session, job.id, job.owner, "state", told, now)
    return changed


def add_tasks(session: WriteSession, job_id: str, spec: JobSpec, now: dt.datetime) -> None:
    tasks = spec.tasks or (TaskSpec(spec.workload, spec.workload.name),)
    for position, task in enumerate(tasks):
        row = {
            "id": new_id(),
            "job_id": job_id,
            "workload_id": task.workload.hash,
            "position": position,
            "weight": task.weight,
            "name": task.name or task.workload.name,
            "state": TaskState.WAITING.value,
            "created_at": now,
        }
        assert session.insert_new(_task, row), "a job has each workload once"


def load_tasks(session: ReadSession, job_id: str) -> tuple[JobTask, ...]:
    rows = session.rows(sa.select(_task).where(_task.c.job_id == job_id).order_by(_task.c.position))
    return tuple(_task_from_row(row) for row in rows)


def set_task_bests(session: WriteSession, job_id: str, bests: Sequence[Record]) -> None:
    """What is served for the tasks in the end, be it of this job or of an earlier one."""
    for best in bests:
        mine = (_task.c.job_id == job_id, _task.c.workload_id == best.workload.hash)
        session.run(sa.update(_task).where(*mine).values(**best_columns(best)))


def _move_tasks(session: WriteSession, job: Job, state: JobState) -> None:
    """A task that is alone runs when its job does; of several, the worker says which one does."""
    if state is JobState.RUNNING and job.kind != "tune":
        return
    mine = sa.update(_task).where(_task.c.job_id == job.id)
    if state is JobState.RUNNING:
        session.run(mine.values(state=TaskState.RUNNING.value))
    elif state not in TERMINAL:
        active = mine.where(_task.c.state == TaskState.RUNNING.value)
        session.run(active.values(state=TaskState.WAITING.value))
    else:
        tried_out = state in (JobState.SUCCEEDED, JobState.FAILED)
        without = TaskState.FAILED if tried_out else TaskState.WAITING
        has_best = _task.c.best_record_id.is_not(None)
        session.run(mine.values(state=sa.case((has_best, TaskState.DONE.value), else_=without.value)))


def forget_key(session: WriteSession, owner: str, key: str, before: dt.datetime) -> None:
    old = (_table.c.owner == owner, _table.c.idempotency_key == key, _table.c.created_at < before)
    session.run(sa.update(_table).where(*old).values(idempotency_key=None))


def repeated(session: ReadSession, owner: str, key: str, request_sha256: str | None) -> Job:
    same_key = (_table.c.owner == owner, _table.c.idempotency_key == key)
    row = session.first(sa.select(_table).where(*same_key))
    assert row is not None, "the key stopped the insert"
    if row["request_sha256"] != request_sha256:
        raise IdempotencyMismatch(key)
    return job_from_row(row)


def job_from_row(row: Row) -> Job:
    given = {**LONG, **row}
    values = {f.name: given[_RENAMED.get(f.name, f.name)] for f in fields(Job)}
    wanted = JobState(values["wanted"]) if values["wanted"] else None
    return Job(**{**values, "state": JobState(values["state"]), "wanted": wanted})


def _task_from_row(row: Row) -> JobTask:
    values = {f.name: row[_RENAMED.get(f.name, f.name)] for f in fields(JobTask)}
    return JobTask(**{**values, "state": TaskState(values["state"])})
