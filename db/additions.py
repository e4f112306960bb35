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
    _job.c.id, _job.c.kind, _job.c.state, _job.c.owner, _job.c.n_trials, _job.c.best_record_id, _job.c.best_s,
    _job.c.best_gflops, _job.c.lease_owner, _job.c.attempt, _job.c.version,
)  # fmt: skip
_NONE = {"id": None, "rank_s": None, "gflops": None}
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
_is_faster = sa.or_(_task.c.best_s.is_(None), _task.c.best_s > bindparam("time_s"))
_update_job = (
    sa.update(_job)
    .where(_job.c.id == bindparam("key"))
    .values(
        n_trials=_job.c.n_trials + bindparam("n"),
        n_failed=_job.c.n_failed + bindparam("failed"),
        version=_job.c.version + bindparam("n"),
        updated_at=bindparam("now"),
        best_record_id=bindparam("best"),
        best_s=bindparam("time_s"),
        best_gflops=bindparam("gflops"),
    )
)
_best_task = {
    "best_record_id": bindparam("best", type_=sa.String),
    "best_s": bindparam("time_s", type_=sa.Float),
    "best_gflops": bindparam("gflops", type_=sa.Float),
}
_update_task = (
    sa.update(_task)
    .where(_task.c.job_id == bindparam("job"), _task.c.workload_id == bindparam("key"))
    .values(
        n_trials=_task.c.n_trials + bindparam("n"),
        n_failed=_task.c.n_failed + bindparam("failed"),
        **{name: sa.case((_is_faster, best), else_=_task.c[name]) for name, best in _best_task.items()},
    )
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
        _count(session, rows, jobs, now)
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


def _count(
    session: WriteSession, rows: Sequence[Mapping[str, Any]], jobs: Mapping[str, Row], now: dt.datetime
) -> None:
    """Counts and bests, in the order of the keys, so that transactions never wait for each other in a circle.
    The best of a job over several workloads is no record: their times do not compare."""
    of_jobs = [row for row in rows if row["job_id"] is not None]
    latest = {row["job_id"]: row["created_at"] for row in of_jobs}
    of_job = _fastest((row for row in of_jobs if jobs[row["job_id"]]["kind"] == "tune"), "job_id")
    better = {key: row for (key,), row in of_job.items() if _is_better(row, jobs[key])}
    bests = {key: _held(job) for key, job in jobs.items()} | {key: _best(row) for key, row in better.items()}
    session.run_all(_update_job, [
        {"key": key, "now": latest[key], **tally, **bests[key]}
        for (key,), tally in _tallies(of_jobs, "job_id")
    ])  # fmt: skip
    of_task = _fastest(of_jobs, "workload_id", "job_id")
    session.run_all(_update_task, [
        {"key": key, "job": job, **tally, **_best(of_task.get((key, job), _NONE))}
        for (key, job), tally in _tallies(of_jobs, "workload_id", "job_id")
    ])  # fmt: skip
    workloads = _tallies(rows, "workload_id")
    session.run_all(_count_workload, [{"key": key, **tally} for (key,), tally in workloads])
    for key, row in sorted(better.items()):
        told = {
            "record": row["id"], "time_s": row["rank_s"], "gflops": row["gflops"], "measured": row["seq"] + 1
        }  # fmt: skip
        tell(session, key, jobs[key]["owner"], "best", told, now)


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


def _fastest(
    rows: Iterable[Mapping[str, Any]], *columns: str
) -> dict[tuple[str, ...], Mapping[str, Any]]:
    """The fastest row, if one has a time, for each of the values of these columns."""
    found: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in columns)
        if row["rank_s"] is not None and (key not in found or row["rank_s"] < found[key]["rank_s"]):
            found[key] = row
    return found


def _is_better(row: Mapping[str, Any], job: Row) -> bool:
    return job["best_s"] is None or row["rank_s"] < job["best_s"]


def _best(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"best": row["id"], "time_s": row["rank_s"], "gflops": row["gflops"]}


def _held(job: Row) -> dict[str, Any]:
    return {"best": job["best_record_id"], "time_s": job["best_s"], "gflops": job["best_gflops"]}
