"""Rows of the job table inside a transaction: read under a lock, checked, changed."""

import datetime as dt
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import plain_text
from tunesmith.db.engine import ReadSession, Row, WriteSession
from tunesmith.db.errors import IdempotencyMismatch, LeaseLost, NotFound
from tunesmith.db.states import JobState, check_transition
from tunesmith.db.values import Job
from tunesmith.records import Record

__all__ = [
    "LONG",
    "MAX_ATTEMPTS",
    "NO_LEASE",
    "best_columns",
    "change",
    "expired",
    "forget_key",
    "held_job",
    "job_from_row",
    "load_job",
    "move",
    "repeated",
    "take_back",
    "update_held",
]

MAX_ATTEMPTS = 5
"""A job whose worker died this often fails: it probably is what kills them."""

_table = models.job
LONG: dict[str, Any] = {"source": {}, "result": None}
"""What lists leave out, and what stands there instead."""

_RENAMED = {"workload_hash": "workload_id"}

NO_LEASE: dict[str, Any] = {"lease_owner": None, "lease_until": None, "phase": ""}


def best_columns(best: Record | None) -> dict[str, Any]:
    if best is None:
        return {}
    return {"best_record_id": best.id, "best_s": best.time_s, "best_gflops": best.gflops}


def expired(job: Job, now: dt.datetime) -> bool:
    return job.lease_until is None or job.lease_until < now


def take_back(session: WriteSession, job: Job, now: dt.datetime) -> Job:
    if job.cancel_requested:
        return move(session, job, JobState.CANCELLED, now, finished_at=now, **NO_LEASE)
    if job.attempt >= MAX_ATTEMPTS:
        error = f"{job.attempt} attempts ended without a word: the worker was killed, or lost the database"
        return move(session, job, JobState.FAILED, now, finished_at=now, error=error, **NO_LEASE)
    return move(session, job, JobState.QUEUED, now, **NO_LEASE)


def load_job(session: ReadSession, job_id: str, *, lock: bool = False) -> Job:
    query = sa.select(_table).where(_table.c.id == plain_text(job_id))
    row = session.first(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound("job", job_id)
    return job_from_row(row)


def held_job(session: WriteSession, job_id: str, owner: str) -> Job:
    job = load_job(session, job_id, lock=True)
    if job.lease_owner != owner or job.state is not JobState.RUNNING:
        raise LeaseLost(job_id, owner)
    return job


def update_held(session: WriteSession, job_id: str, owner: str, values: dict[str, Any]) -> Job:
    held = (_table.c.id == job_id, _table.c.lease_owner == owner, _table.c.state == JobState.RUNNING.value)
    if not session.run(sa.update(_table).where(*held).values(**values)):
        load_job(session, job_id)
        raise LeaseLost(job_id, owner)
    return load_job(session, job_id)


def move(session: WriteSession, job: Job, state: JobState, now: dt.datetime, **values: Any) -> Job:
    check_transition(job.id, job.state, state)
    return change(session, job, now, state=state.value, **values)


def change(session: WriteSession, job: Job, now: dt.datetime, **values: Any) -> Job:
    """Writes onto the version that was read; the row is locked, so a miss is a mistake of ours."""
    same = (_table.c.id == job.id, _table.c.version == job.version, _table.c.state == job.state.value)
    changed = sa.update(_table).where(*same).values(version=job.version + 1, updated_at=now, **values)
    assert session.run(changed) == 1, "a locked row changed"
    return load_job(session, job.id)


def forget_key(session: WriteSession, key: str, before: dt.datetime) -> None:
    old = (_table.c.owner == "", _table.c.idempotency_key == key, _table.c.created_at < before)
    session.run(sa.update(_table).where(*old).values(idempotency_key=None))


def repeated(session: ReadSession, key: str, request_sha256: str | None) -> Job:
    same_key = (_table.c.owner == "", _table.c.idempotency_key == key)
    row = session.first(sa.select(_table).where(*same_key))
    assert row is not None, "the key stopped the insert"
    if row["request_sha256"] != request_sha256:
        raise IdempotencyMismatch(key)
    return job_from_row(row)


def job_from_row(row: Row) -> Job:
    given = {**LONG, **row}
    values = {f.name: given[_RENAMED.get(f.name, f.name)] for f in fields(Job)}
    return Job(**{**values, "state": JobState(values["state"])})
