"""Requests that must take effect once, however often they are sent, and what each key has used today."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.engine import Database, ReadSession, Row, WriteSession
from tunesmith.db.errors import Conflict, IdempotencyMismatch
from tunesmith.db.states import TERMINAL

__all__ = ["Answered", "InFlight", "Requests", "Usage"]

_LIFE = dt.timedelta(hours=24)
_ABANDONED = dt.timedelta(minutes=2)
_job = models.job
_request = models.request
_usage = models.usage


class InFlight(Conflict):
    """The first request with this key has not been answered yet."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the first request with idempotency key {key!r} is still being answered; try again")


@dataclass(frozen=True, slots=True)
class Answered:
    """What a request with the same key was answered."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one owner since midnight UTC."""

    records: int
    size_bytes: int


class Requests:
    """Every method is one transaction and thread-safe. ``owner`` is the id of a key, empty without one."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    def begin(self, owner: str, key: str, request_sha256: str) -> Answered | None:
        """None: carry it out, then ``finish`` or ``forget``. Otherwise what was answered before.

        Raises ``IdempotencyMismatch`` when the key came with another request within 24 hours, and
        ``InFlight`` while that one is being carried out (for two minutes at most: a killed server must
        not block a key).
        """
        now = self._clock()
        row = {"owner": owner, "id": key, "request_sha256": request_sha256, "created_at": now}

        def work(session: WriteSession) -> Answered | None:
            session.delete(sa.delete(_request).where(_request.c.created_at < now - _LIFE))
            left = (*_this(owner, key), _request.c.status.is_(None), _request.c.created_at < now - _ABANDONED)
            session.delete(sa.delete(_request).where(*left))
            if session.insert_new(_request, row):
                return None
            return _answer(session.first(sa.select(_request).where(*_this(owner, key))), key, request_sha256)

        return self._database.write(work)

    def finish(self, owner: str, key: str, answer: Answered) -> None:
        values = {"status": answer.status, "answer": answer.body}
        done = sa.update(_request).where(*_this(owner, key)).values(**values)
        self._database.write(lambda session: session.run(done))

    def forget(self, owner: str, key: str) -> None:
        """After a failure, so that the same key may be tried again."""
        self._database.write(lambda session: session.delete(sa.delete(_request).where(*_this(owner, key))))

    def job_load(self, owner: str) -> tuple[int, int]:
        """How many jobs of an owner are not done, and how many trials those of the last 24 hours have
        measured or may still measure."""
        done = _job.c.state.in_([state.value for state in TERMINAL])
        asked = sa.case((done, _job.c.n_trials), else_=sa.func.coalesce(_job.c.trials_total, _job.c.n_trials))
        mine = _job.c.owner == owner
        waiting = sa.select(sa.func.count().label("n")).where(mine, sa.not_(done))
        recent = sa.select(sa.func.coalesce(sa.func.sum(asked), 0).label("n"))
        recent = recent.where(mine, _job.c.created_at > self._clock() - dt.timedelta(hours=24))

        def work(session: ReadSession) -> tuple[int, int]:
            found = session.first(waiting), session.first(recent)
            return tuple(int(row["n"]) for row in found if row)  # type: ignore[return-value]

        return self._database.read(work)

    def usage(self, owner: str) -> Usage:
        query = sa.select(_usage).where(_usage.c.owner == owner, _usage.c.id == self._day())
        row = self._database.read(lambda session: session.first(query))
        return Usage(row["records"], row["size_bytes"]) if row else Usage(0, 0)

    def spend(self, owner: str, *, records: int = 0, size_bytes: int = 0) -> None:
        """Adds to what an owner has used today."""
        day = self._day()
        empty = {"owner": owner, "id": day, "records": 0, "size_bytes": 0}
        more = (
            sa.update(_usage)
            .where(_usage.c.owner == owner, _usage.c.id == day)
            .values(records=_usage.c.records + records, size_bytes=_usage.c.size_bytes + size_bytes)
        )

        def work(session: WriteSession) -> None:
            session.insert_new(_usage, empty)
            session.run(more)

        self._database.write(work)

    def _day(self) -> str:
        return self._clock().date().isoformat()


def _this(owner: str, key: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _request.c.owner == owner, _request.c.id == key


def _answer(row: Row | None, key: str, request_sha256: str) -> Answered:
    assert row is not None, "the key stopped the insert"
    if row["request_sha256"] != request_sha256:
        raise IdempotencyMismatch(key)
    if row["status"] is None:
        raise InFlight(key)
    return Answered(row["status"], row["answer"])
