"""Events: what happened to jobs, written in the transaction of what they tell.

Ids grow in the order in which events become visible, so that a reader who asks for what comes after the
last one he saw misses nothing.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import parse_time
from tunesmith.db.engine import Database, ReadSession, Row, WriteSession
from tunesmith.db.values import JobEvent

__all__ = ["Events", "tell"]

_table = models.event
_ORDER_KEY = 0x74756E65657673  # of PostgreSQL's advisory locks: "tuneevs"
_PRUNED_AT_ONCE = 5000


def tell(
    session: WriteSession, job_id: str, owner: str, kind: str, told: dict[str, Any], now: dt.datetime
) -> None:
    """Adds an event; the last thing that a transaction does with a lock.

    PostgreSQL hands out ids before transactions commit: without the lock, a lower id could become visible
    after a higher one was read, and be missed. SQLite has one writer at a time anyway.
    """
    if session.is_postgres:
        session.fetch("SELECT pg_advisory_xact_lock(:key)", {"key": _ORDER_KEY})
    row = {"job_id": job_id, "owner": owner, "kind": kind, "document": told, "at": now}
    session.insert_new(_table, row)


class Events:
    """The event table. Every method is one transaction and thread-safe."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    def last_id(self) -> int:
        """0 when nothing has happened yet."""
        query = sa.select(sa.func.max(_table.c.id).label("last"))

        def work(session: ReadSession) -> int:
            row = session.first(query)
            return int(row["last"] or 0) if row else 0

        return self._database.read(work)

    def after(
        self,
        last_id: int,
        *,
        job_id: str | None = None,
        owner: str | None = None,
        until: int | None = None,
        limit: int = 500,
    ) -> list[JobEvent]:
        """What happened since, oldest first: to one job or to all, of one owner or of all."""
        query = sa.select(_table).where(_table.c.id > last_id).order_by(_table.c.id).limit(limit)
        if job_id is not None:
            query = query.where(_table.c.job_id == job_id)
        if owner is not None:
            query = query.where(_table.c.owner == owner)
        if until is not None:
            query = query.where(_table.c.id <= until)
        return self._database.read(lambda session: [_event(row) for row in session.rows(query)])

    def prune(self, older_than: dt.timedelta) -> int:
        """Removes old events, some thousands at a time; returns how many."""
        before = self._clock() - older_than
        ids = sa.select(_table.c.id).where(_table.c.at < before).order_by(_table.c.at).limit(_PRUNED_AT_ONCE)
        removed = 0
        while old := self._database.read(lambda session: session.rows(ids)):
            removed += self._remove([row["id"] for row in old])
        return removed

    def _remove(self, ids: Sequence[int]) -> int:
        chosen = sa.delete(_table).where(_table.c.id.in_(ids))
        return self._database.write(lambda session: session.delete(chosen))


def _event(row: Row) -> JobEvent:
    return JobEvent(**{**row, "at": parse_time(row["at"])})
