"""Adding records: the rows, what counts them, and what becomes the best, for a batch in one transaction.

Statements are made once and run for all rows of a kind: making one takes as long as running it.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from tunesmith.db import models
from tunesmith.db.codec import record_row
from tunesmith.db.engine import ReadSession, Row, WriteSession
from tunesmith.db.errors import LeaseLost, NotFound
from tunesmith.db.events import tell
from tunesmith.db.states import JobState
from tunesmith.db.values import Fence
from tunesmith.records import Record, Status, Target, Workload

__all__ = ["Addition", "add_records", "check_fence", "locked_jobs"]

_AT_ONCE = 500
_record, _workload, _job, _task = models.record, models.workload, models.job, models.task
_JOB_COLUMNS = (
    _job.c.id, _job.c.kind, _job.c.state, _job.c.owner, _job.c.n_trials, _job.c.best_s, _job.c.lease_owner,
    _job.c.attempt, _job.c.version,
)  # fmt: skip
_known = sa.select(_record.c.id).where(_record.c.id.in_(bindparam("ids", expanding=True)))
_lock_jobs = (
    sa.select(*_JOB_COLUMNS)
    .where(_job.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(_job.c.id)
    .with_for_update()
)
_insert = sa.insert(_record)
_count_workload = (
    sa.update(_workload)
    .where(_workload.c.id == bindparam("key"))
    .values(
        n_records=_workload.c.n_records + bindparam("n"),
        n_failed=_workload.c.n_failed + bindparam("failed"),
    )
)
_count_job = (
    sa.update(_job)
    .where(_job.c.id == bindparam("key"))
    .values(
        n_trials=_job.c.n_trials + bindparam("n"),
        n_failed=_job.c.n_failed + bindparam("failed"),
        version=_job.c.version + bindparam("n"),
        updated_at=bindparam("now"),
    )
)
_count_task = (
    sa.update(_task)
    .where(_task.c.job_id == bindparam("job"), _task.c.workload_id == bindparam("key"))
    .values(n_trials=_task.c.n_trials + bindparam("n"), n_failed=_task.c.n_failed + bindparam("failed"))
)
_best: dict[str, Any] = {
    "best_record_id": bindparam("best"), "best_s": bindparam("time_s"), "best_gflops": bindparam("gflops"),
}  # fmt: skip
_best_of_job = sa.update(_job).where(_job.c.id == bindparam("key")).values(**_best)
_best_of_task = (
    sa.update(_task)
    .where(
        _task.c.job_id == bindparam("job"),
        _task.c.workload_id == bindparam("key"),
        sa.or_(_task.c.best_s.is_(None), _task.c.best_s > bindparam("time_s")),
    )
    .values(**_best)
)


@dataclass(frozen=True, slots=True)
class Addition:
    """A record to add, the shared rows of its workload and target as stored, and the right to add to its
    job."""

    record: Record
    workload: Workload
    target: Target
    fence: Fence | None = None


def add_records(session: WriteSession, additions: Sequence[Addition], now: dt.datetime) -> list[bool]:
    """Which of them are new; the others, whose ids are there already, change nothing.

    Raises ``NotFound`` when a job is not in the database, and ``LeaseLost`` when one is no longer that of the
    fence. A record that another process adds at the same moment is an IntegrityError.
    """
    jobs = locked_jobs(session, {a.record.job_id for a in additions if a.record.job_id is not None})
    known = _known_ids(session, [a.record.id for a in additions])
    places = Counter({key: job["n_trials"] for key, job in jobs.items()})
    rows, news = [], []
    for addition in additions:
        record = addition.record
        news.append(record.id not in known)
        if record.id in known:
            continue
        known.add(record.id)
        row = record_row(record, addition.workload, addition.target) | {"seq": None}
        if record.job_id is not None:
            check_fence(jobs[record.job_id], addition.fence)
            row["seq"] = places[record.job_id]
            places[record.job_id] += 1
        rows.append(row)
    if rows:
        session.run_all(_insert, rows)
        _count(session, rows)
        _tell_bests(session, rows, jobs, now)
    return news


def locked_jobs(session: WriteSession, ids: Iterable[str]) -> dict[str, Row]:
    """Jobs by id, locked: their counts give records their places. Raises ``NotFound``."""
    wanted = sorted(ids)
    found = {row["id"]: row for row in session.rows(_lock_jobs, {"ids": wanted})} if wanted else {}
    for key in wanted:
        if key not in found:
            raise NotFound("job", key, "a record can only belong to a job of the same database")
    return found


def check_fence(job: Row, fence: Fence | None) -> None:
    held = Fence(job["id"], job["lease_owner"] or "", job["attempt"])
    if fence is not None and (fence != held or job["state"] != JobState.RUNNING.value):
        raise LeaseLost(job["id"], fence.owner)


def _known_ids(session: ReadSession, ids: Sequence[str]) -> set[str]:
    parts = (ids[i : i + _AT_ONCE] for i in range(0, len(ids), _AT_ONCE))
    return {row["id"] for part in parts for row in session.rows(_known, {"ids": part})}


def _count(session: WriteSession, rows: Sequence[Mapping[str, Any]]) -> None:
    """In the order of the keys, so that transactions never wait for each other in a circle."""
    of_jobs = [row for row in rows if row["job_id"] is not None]
    latest = {row["job_id"]: row["created_at"] for row in of_jobs}
    jobs = _tallies(of_jobs, "job_id")
    session.run_all(_count_job, [{"key": job, "now": latest[job], **tally} for (job,), tally in jobs])
    tasks = _tallies(of_jobs, "workload_id", "job_id")
    session.run_all(_count_task, [{"key": key, "job": job, **tally} for (key, job), tally in tasks])
    workloads = _tallies(rows, "workload_id")
    session.run_all(_count_workload, [{"key": key, **tally} for (key,), tally in workloads])


def _tallies(
    rows: Sequence[Mapping[str, Any]], *columns: str
) -> list[tuple[tuple[str, ...], dict[str, int]]]:
    """How many rows, and failures among them, have each of the values of these columns; sorted."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for row in rows:
        tally = found.setdefault(tuple(row[name] for name in columns), {"n": 0, "failed": 0})
        tally["n"] += 1
        tally["failed"] += row["status"] != Status.OK.value
    return sorted(found.items())


def _tell_bests(
    session: WriteSession, rows: Sequence[Mapping[str, Any]], jobs: Mapping[str, Row], now: dt.datetime
) -> None:
    """The best of a job over several workloads is no record: their times do not compare."""
    of_task: dict[tuple[str, str], Mapping[str, Any]] = {}
    of_job: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["job_id"] is None or row["rank_s"] is None:
            continue
        _keep_faster(of_task, (row["job_id"], row["workload_id"]), row)
        job = jobs[row["job_id"]]
        if job["kind"] == "tune" and (job["best_s"] is None or row["rank_s"] < job["best_s"]):
            _keep_faster(of_job, job["id"], row)
    tasks = [{"job": job, "key": key, **_values(of_task[job, key])} for job, key in sorted(of_task)]
    session.run_all(_best_of_task, tasks)
    session.run_all(_best_of_job, [{"key": key, **_values(of_job[key])} for key in sorted(of_job)])
    for key in sorted(of_job):
        row = of_job[key]
        told = {
            "record": row["id"], "time_s": row["rank_s"], "gflops": row["gflops"], "measured": row["seq"] + 1
        }  # fmt: skip
        tell(session, key, jobs[key]["owner"], "best", told, now)


def _keep_faster(bests: dict[Any, Mapping[str, Any]], key: Any, row: Mapping[str, Any]) -> None:
    if key not in bests or row["rank_s"] < bests[key]["rank_s"]:
        bests[key] = row


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"best": row["id"], "time_s": row["rank_s"], "gflops": row["gflops"]}
