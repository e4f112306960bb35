"""Forgetting what is old: trials that nothing needs any more, and what happened to jobs long ago."""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import parse_time
from tunesmith.db.engine import Database, ReadSession, WriteSession
from tunesmith.db.states import TERMINAL
from tunesmith.records import Status

__all__ = ["Pruned", "prune"]

_BATCH = 500
_PATIENCE = 1.0  # a pause as long as the batch took: writers get at least half of the time
_record = models.record
_workload = models.workload


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many were removed, or would be. ``kept``: records that are as old, but needed."""

    records: int = 0
    failed: int = 0
    kept: int = 0
    events: int = 0
    requests: int = 0
    usage: int = 0


def prune(
    database: Database,
    before: dt.datetime,
    *,
    failed_only: bool = False,
    dry_run: bool = False,
    on_batch: Callable[[Pruned], None] = lambda _: None,
) -> Pruned:
    """Removes records made before, and with ``failed_only`` nothing else than failures.

    What is needed stays, however old: what is served (the best of each workload, target and state of the
    caches), whatever raced, records with artifacts, those of jobs that are not done, those that jobs name as
    their best, and observations imported from elsewhere. Transactions are small, and a kill between two
    leaves everything consistent.
    """
    done = Pruned()
    statuses = [s for s in Status if not (failed_only and s is Status.OK)]
    for status in statuses:
        for ids in _old(database, status, before):
            began = time.monotonic()
            count = _counted(database, ids) if dry_run else _removed(database, ids)
            failed = 0 if status is Status.OK else count
            done = replace(
                done, records=done.records + count, failed=done.failed + failed,
                kept=done.kept + len(ids) - count,
            )  # fmt: skip
            on_batch(done)
            if not dry_run:
                time.sleep(_PATIENCE * (time.monotonic() - began))
    if failed_only:
        return done
    return replace(done, **{name: _others(database, name, before, dry_run) for name in _OTHERS})


def _old(database: Database, status: Status, before: dt.datetime) -> Iterator[Sequence[str]]:
    """Ids of one status, oldest first, some hundreds at a time: ranges of an index."""
    created, key = _record.c.created_at, _record.c.id
    query = sa.select(created, key).where(_record.c.status == status.value, created < before)
    query = query.order_by(created, key).limit(_BATCH)
    rows = database.read(lambda session: session.rows(query))
    while rows:
        yield [row["id"] for row in rows]
        at = parse_time(rows[-1]["created_at"])
        last = sa.tuple_(sa.literal(at, created.type), sa.literal(rows[-1]["id"], key.type))
        following = query.where(sa.tuple_(created, key) > last)
        rows = database.read(lambda session, query=following: session.rows(query))  # type: ignore[misc]


def _counted(database: Database, ids: Sequence[str]) -> int:
    query = sa.select(sa.func.count().label("n")).select_from(_record).where(*_dispensable(ids))

    def work(session: ReadSession) -> int:
        row = session.first(query)
        return int(row["n"]) if row else 0

    return database.read(work)


def _removed(database: Database, ids: Sequence[str]) -> int:
    """One transaction: the records, and the counts of their workloads."""

    def work(session: WriteSession) -> int:
        # Locked first, so that nothing comes to need one of them between the question and the deletion.
        locked = sa.select(_record.c.id).where(_record.c.id.in_(ids)).order_by(_record.c.id)
        session.rows(locked.with_for_update())
        query = sa.select(_record.c.id, _record.c.workload_id, _record.c.status).where(*_dispensable(ids))
        rows = session.rows(query)
        totals = Counter(row["workload_id"] for row in rows)
        failures = Counter(row["workload_id"] for row in rows if row["status"] != Status.OK.value)
        session.delete(sa.delete(_record).where(_record.c.id.in_([row["id"] for row in rows])))
        for key, count in sorted(totals.items()):
            columns = _workload.c
            left = {"n_records": columns.n_records - count, "n_failed": columns.n_failed - failures[key]}
            session.run(sa.update(_workload).where(columns.id == key).values(**left))
        return len(rows)

    return database.write(work)


def _dispensable(ids: Sequence[str]) -> list[sa.ColumnElement[bool]]:
    """Of these ids, the records that nothing needs."""
    job, task, artifact = models.job, models.task, models.artifact
    running = sa.exists().where(
        job.c.id == _record.c.job_id, job.c.state.not_in([state.value for state in TERMINAL])
    )
    built = sa.exists().where(artifact.c.record_id == _record.c.id)
    named = [
        _record.c.id.not_in(sa.select(t.c.best_record_id).where(t.c.best_record_id.in_(ids)))
        for t in (job, task)
    ]
    return [
        _record.c.id.in_(ids),
        _record.c.race_s.is_(None),
        sa.or_(_record.c.time_s.is_(None), _record.c.rank_s.is_not(None)),
        sa.or_(_record.c.rank_s.is_(None), _record.c.id != _served()),
        ~running,
        ~built,
        *named,
    ]


def _served() -> sa.ScalarSelect[str]:
    """The record that is served where this one could be."""
    other = models.record.alias("other")
    alike = (other.c[name] == _record.c[name] for name in ("workload_id", "target_id", "cache"))
    best = sa.select(other.c.id).where(*alike, other.c.rank_s.is_not(None))
    return best.order_by(other.c.unraced, other.c.rank_s, other.c.id).limit(1).scalar_subquery()


# -- what else gets old -------------------------------------------------------------------------------------

_OTHERS = {
    "events": (models.event, models.event.c.at, ("id",)),
    "requests": (models.request, models.request.c.created_at, ("owner", "id")),
    "usage": (models.usage, models.usage.c.id, ("owner", "id")),
}


def _others(database: Database, name: str, before: dt.datetime, dry_run: bool) -> int:
    table, column, key = _OTHERS[name]
    limit = before.date().isoformat() if name == "usage" else before
    old = sa.select(*(table.c[k] for k in key)).where(column < limit)
    if dry_run:
        counted = sa.select(sa.func.count().label("n")).select_from(old.subquery())
        rows = database.read(lambda session: session.rows(counted))
        return int(rows[0]["n"])
    removed = 0
    identity = sa.tuple_(*(table.c[k] for k in key))
    while rows := database.read(lambda session: session.rows(old.limit(_BATCH))):
        chosen = sa.delete(table).where(identity.in_([tuple(row[k] for k in key) for row in rows]))
        removed += database.write(lambda session, chosen=chosen: session.delete(chosen))  # type: ignore[misc]
    return removed
