"""Records on their way out of a database and into another: nothing of them is lost on it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.additions import Addition, add_records
from tunesmith.db.codec import RECORD_COLUMNS, document, parse_time, plain_text
from tunesmith.db.engine import Database, ReadSession, WriteSession
from tunesmith.db.lookup import Shared
from tunesmith.db.trials import set_race
from tunesmith.db.workloads import shared_rows
from tunesmith.records import Record, Target, Workload, utc_now

__all__ = ["Stored", "Taken", "add_stored", "settle_races", "stored_records"]

_PAGE = 500
_table = models.record
_Rows = dict[tuple[str, str], tuple[Workload, Target]]
_Kind = tuple[str, str, str]  # what races against each other: workload, target, state of the caches


@dataclass(frozen=True, slots=True)
class Stored:
    """A record, and what the database adds to it.

    ``race_s`` is its time in the last race that it was in, ``raced`` whether that race still counts.
    ``workload`` and ``target`` are the shared rows, where the record says something else than they do.
    """

    record: Record
    race_s: float | None = None
    raced: bool = False
    workload: Workload | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """``other``: ids that another record has here already, which stays as it is."""

    new: int
    known: int
    other: frozenset[str]


def stored_records(
    database: Database,
    *,
    workload: str | None = None,
    target: str | None = None,
    status: str | None = None,
) -> Iterator[Stored]:
    """In the order of their ids, page by page, each page one moment. Records that are added meanwhile may be
    among them or not; no other is missing or comes twice."""
    given = {"workload_id": workload, "target_id": target, "status": status}
    filters = [_table.c[name] == plain_text(value) for name, value in given.items() if value is not None]
    columns = [_table.c[name] for name in RECORD_COLUMNS]
    query = sa.select(*columns).where(*filters).order_by(_table.c.id).limit(_PAGE)
    last = ""
    while page := database.read(lambda session, after=last: _page(session, query, after)):  # type: ignore[misc]
        yield from page
        last = page[-1].record.id


def _page(session: ReadSession, query: sa.Select[Any], after: str) -> list[Stored]:
    shared = Shared(session.fetch)
    return [_stored(shared, row) for row in session.rows(query.where(_table.c.id > after))]


def _stored(shared: Shared, row: Mapping[str, Any]) -> Stored:
    own = document(row["variant"]) is not None
    return Stored(
        shared.record(row),
        row["race_s"],
        raced=not row["unraced"],
        workload=shared.workload(row["workload_id"]) if own else None,
        target=shared.target(row["target_id"]) if own else None,
    )


def add_stored(database: Database, batch: Sequence[Stored]) -> Taken:
    """One transaction. Records become nobody's job's; that they raced is for ``settle_races``."""

    def work(session: WriteSession) -> Taken:
        known = _known(session, [stored.record.id for stored in batch])
        fresh: list[Stored] = []
        repeated, other = 0, set()
        for stored in batch:
            record = stored.record
            if record.id not in known:
                fresh.append(stored)
                known[record.id] = _what(record)
            elif known[record.id] == _what(record):
                repeated += 1
            else:
                other.add(record.id)
        _add(session, fresh)
        return Taken(len(fresh), repeated, frozenset(other))

    return database.write(work)


def _known(session: ReadSession, ids: Sequence[str]) -> dict[str, tuple[str, str, str]]:
    columns = (_table.c.id, _table.c.workload_id, _table.c.target_id, _table.c.schedule_hash)
    rows = session.rows(sa.select(*columns).where(_table.c.id.in_(ids)))
    return {row["id"]: (row["workload_id"], row["target_id"], row["schedule_hash"]) for row in rows}


def _what(record: Record) -> tuple[str, str, str]:
    return record.workload.hash, record.target.fingerprint, record.schedule_hash


def _add(session: WriteSession, fresh: Sequence[Stored]) -> None:
    rows: _Rows = {}
    shared = [rows.get(_what(stored.record)[:2]) or _shared(session, stored, rows) for stored in fresh]
    added = [Addition(stored.record, *pair) for stored, pair in zip(fresh, shared, strict=True)]
    add_records(session, added, utc_now())
    for stored in fresh:
        if stored.race_s is not None:
            past = sa.update(_table).where(_table.c.id == stored.record.id, _table.c.time_s.is_not(None))
            session.run(past.values(race_s=stored.race_s))


def _shared(session: WriteSession, stored: Stored, rows: _Rows) -> tuple[Workload, Target]:
    """The rows of workload and target as they are here, from now on also in ``rows``."""
    record, key = stored.record, _what(stored.record)[:2]
    workload, target = stored.workload or record.workload, stored.target or record.target
    rows[key] = shared_rows(session, workload, target, utc_now())
    return rows[key]


def settle_races(database: Database, raced: Iterable[tuple[str, float]]) -> int:
    """Makes races of another database count here, given ids and times of those that were in them.

    Where records of one kind have raced here as well, the race with the newest record wins: times of
    different races do not compare. Returns how many races count now.
    """
    times = dict(raced)
    ids = sorted(times)
    races: dict[_Kind, dict[str, float]] = {}
    for start in range(0, len(ids), _PAGE):
        some = ids[start : start + _PAGE]
        for row in database.read(lambda session, some=some: _of_ids(session, some)):  # type: ignore[misc]
            kind = (row["workload_id"], row["target_id"], row["cache"])
            races.setdefault(kind, {})[row["id"]] = times[row["id"]]
    return sum(
        database.write(lambda session, kind=kind, race=race: _settle(session, kind, race))  # type: ignore[misc]
        for kind, race in sorted(races.items())
    )


_KIND = (_table.c.id, _table.c.workload_id, _table.c.target_id, _table.c.cache)


def _of_ids(session: ReadSession, ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    return session.rows(sa.select(*_KIND).where(_table.c.id.in_(ids), _table.c.rank_s.is_not(None)))


def _settle(session: WriteSession, kind: _Kind, race: Mapping[str, float]) -> bool:
    workload, target, cache = kind
    columns = (_table.c.id, _table.c.race_s, _table.c.created_at)
    here = (_table.c.workload_id == workload, _table.c.target_id == target, _table.c.cache == cache)
    raced = (*here, _table.c.rank_s.is_not(None), _table.c.unraced == sa.false())
    mine = session.rows(sa.select(*columns).where(*raced))
    if {row["id"]: row["race_s"] for row in mine} == race:
        return False
    theirs = session.rows(sa.select(*columns).where(_table.c.id.in_(list(race))))
    if mine and _newest(mine) > _newest(theirs):
        return False
    if not all(0 < time_s < math.inf for time_s in race.values()):
        return False
    set_race(session, race, None)
    return True


def _newest(rows: Sequence[Mapping[str, Any]]) -> tuple[Any, str]:
    return max((parse_time(row["created_at"]), row["id"]) for row in rows)
