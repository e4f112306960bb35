"""Taking old records away, and nothing that anybody is served."""

import datetime as dt
from collections import Counter
from dataclasses import dataclass

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.engine import Database, Row, WriteSession
from tunesmith.db.states import TERMINAL

__all__ = ["Pruned", "prune_records"]

_AT_ONCE = 500  # in one transaction, so that writers wait for milliseconds only
_record = models.record


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many records went, and how many of them were failures."""

    records: int
    failed: int


def prune_records(
    database: Database, before: dt.datetime, *, failed_only: bool = False, dry_run: bool = False
) -> Pruned:
    """Removes records made before a time, some hundreds in a transaction.

    Those stay that are served (the best of their workload, target and state of the caches), that took part in
    the latest race, that are the best of a job or task, belong to an unfinished job, or had something built
    from them. Interrupted, it has removed a part, with all counts right.
    """
    last, total, failed = "", 0, 0
    while True:
        query = _candidates(last, before, failed_only)
        if dry_run:
            rows = list(database.read(lambda session, query=query: session.rows(query)))  # type: ignore[misc]
        else:
            rows = database.write(lambda session, query=query: _remove(session, query))  # type: ignore[misc]
        if not rows:
            return Pruned(total, failed)
        last = rows[-1]["id"]
        total += len(rows)
        failed += sum(row["rank_s"] is None for row in rows)


def _candidates(last: str, before: dt.datetime, failed_only: bool) -> sa.Select[tuple[str, str, float]]:
    better = _record.alias("better")
    is_better = sa.exists().where(
        better.c.workload_id == _record.c.workload_id,
        better.c.target_id == _record.c.target_id,
        better.c.cache == _record.c.cache,
        better.c.rank_s.is_not(None),
        sa.or_(
            better.c.unraced == sa.false(),
            better.c.rank_s < _record.c.rank_s,
            sa.and_(better.c.rank_s == _record.c.rank_s, better.c.id < _record.c.id),
        ),
    )
    job, task, artifact = models.job, models.task, models.artifact
    is_open = sa.exists().where(
        job.c.id == _record.c.job_id, job.c.state.not_in([state.value for state in TERMINAL])
    )
    bests = [sa.select(t.c.best_record_id).where(t.c.best_record_id.is_not(None)) for t in (job, task)]
    fails = _record.c.rank_s.is_(None)
    return (
        sa.select(_record.c.id, _record.c.workload_id, _record.c.rank_s)
        .where(
            _record.c.id > last,
            _record.c.created_at < before,
            _record.c.unraced == sa.true(),
            fails if failed_only else sa.or_(fails, is_better),
            ~is_open,
            ~sa.exists().where(artifact.c.record_id == _record.c.id),
            *(_record.c.id.not_in(best) for best in bests),
        )
        .order_by(_record.c.id)
        .limit(_AT_ONCE)
    )


def _remove(session: WriteSession, query: sa.Select[tuple[str, str, float]]) -> list[Row]:
    rows = list(session.rows(query))
    if not rows:
        return rows
    session.delete(sa.delete(_record).where(_record.c.id.in_([row["id"] for row in rows])))
    gone = Counter(row["workload_id"] for row in rows)
    failures = Counter(row["workload_id"] for row in rows if row["rank_s"] is None)
    table = models.workload
    for key in sorted(gone):
        counts = {
            "n_records": table.c.n_records - gone[key], "n_failed": table.c.n_failed - failures[key]
        }  # fmt: skip
        session.run(sa.update(table).where(table.c.id == key).values(**counts))
    return rows
