"""The lookup of the best record: one set of queries, run through SQLAlchemy by the store, or straight
through ``sqlite3`` for commands that have to answer at once (loading SQLAlchemy takes 0.2 s).

Every query walks ``ix_record_best``: O(log n) in the records, times the number of similar targets.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tunesmith.db.codec import (
    RECORD_COLUMNS,
    record_from_row,
    target_from_row,
    workload_from_row,
)
from tunesmith.db.raw import connect_sqlite
from tunesmith.db.revisions import HEAD
from tunesmith.db.urls import default_url, normalize, sqlite_path
from tunesmith.db.values import Best, Match
from tunesmith.records import Record, Target, Workload

__all__ = ["Fetch", "Kept", "Shared", "find_best", "quick_best"]

T = TypeVar("T")

Fetch = Callable[[str, Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""Runs a query with ``:named`` values and gives its rows by column name."""

_COLUMNS = ", ".join(RECORD_COLUMNS)
_SERVED_ORDER = "unraced, rank_s, id"

BEST_OF_TARGET = (
    f"SELECT {_COLUMNS} FROM record WHERE workload_id = :workload AND target_id = :target"
    f" AND cache = :cache AND rank_s IS NOT NULL ORDER BY {_SERVED_ORDER} LIMIT 1"
)
BEST_OF_ALL = (
    f"SELECT {_COLUMNS} FROM record WHERE workload_id = :workload"
    f" AND cache = :cache AND rank_s IS NOT NULL ORDER BY {_SERVED_ORDER} LIMIT 1"
)
_SIMILAR = (
    "SELECT near.cpu AS near_cpu, near.features AS near_features, near.threads AS near_threads,"
    f" near.vector_bytes AS near_vector_bytes, {', '.join('r.' + name for name in RECORD_COLUMNS)}"
    " FROM (SELECT cpu, features, threads, vector_bytes, (SELECT s.id FROM record s"
    " WHERE s.workload_id = :workload AND s.target_id = target.id AND s.cache = :cache"
    " AND s.rank_s IS NOT NULL ORDER BY s.unraced, s.rank_s, s.id LIMIT 1) AS best_id"
    " FROM target WHERE arch = :arch) near JOIN record r ON r.id = near.best_id"
)
_KEPT = 1024


@dataclass
class Kept:
    """Rows shared by many records that have been read: what is read of them never changes."""

    workloads: dict[str, Workload] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)


class Shared:
    """Reads rows shared by many records once, and keeps them for the next who is given ``kept``."""

    def __init__(self, fetch: Fetch, kept: Kept | None = None) -> None:
        self._fetch = fetch
        self._kept = Kept() if kept is None else kept

    def workload(self, key: str) -> Workload | None:
        return self._read("workload", key, self._kept.workloads, workload_from_row)

    def target(self, key: str) -> Target | None:
        return self._read("target", key, self._kept.targets, target_from_row)

    def _read(
        self, table: str, key: str, kept: dict[str, T], made: Callable[[Mapping[str, Any]], T]
    ) -> T | None:
        found = kept.get(key)
        if found is None and (rows := self._fetch(f"SELECT * FROM {table} WHERE id = :id", {"id": key})):
            if len(kept) >= _KEPT:
                kept.clear()
            found = kept[key] = made(rows[0])
        return found

    def record(self, row: Mapping[str, Any]) -> Record:
        workload, target = self.workload(row["workload_id"]), self.target(row["target_id"])
        assert workload is not None and target is not None, "foreign keys hold"
        return record_from_row(row, workload, target)


def find_best(
    fetch: Fetch,
    workload_hash: str,
    target: Target | str | None,
    within: Match = Match.SAME_ARCH,
    cache: str = "warm",
    kept: Kept | None = None,
) -> Best | None:
    """The record to serve for a workload, from the closest target that has one.

    ``target`` is a target, the fingerprint of one that the database knows, or None for any. ``within``
    is the loosest match that is still acceptable. Among equally close targets the fastest wins. Only
    records measured with the caches in the state ``cache`` count. ``kept``: what earlier lookups in this
    database have read.
    """
    wanted_of = {"workload": workload_hash, "cache": cache}
    shared = Shared(fetch, kept)
    if target is None:
        return _first(shared, fetch(BEST_OF_ALL, wanted_of), Match.ANY)
    fingerprint = target if isinstance(target, str) else target.fingerprint
    rows = fetch(BEST_OF_TARGET, {**wanted_of, "target": fingerprint})
    if rows or within is Match.EXACT:
        return _first(shared, rows, Match.EXACT)
    wanted = shared.target(target) if isinstance(target, str) else target
    if wanted is None:
        return None
    return _similar(fetch, shared, wanted_of, wanted, within)


def _similar(
    fetch: Fetch, shared: Shared, wanted_of: Mapping[str, Any], wanted: Target, within: Match
) -> Best | None:
    found: list[tuple[tuple[Any, ...], Match, Mapping[str, Any]]] = []
    for row in fetch(_SIMILAR, {**wanted_of, "arch": wanted.arch}):
        match = _match(row, wanted)
        if within.covers(match):
            threads, vector_bytes = row["near_threads"], row["near_vector_bytes"]
            distance = (threads != wanted.threads, vector_bytes != wanted.vector_bytes)
            closeness = (match is Match.SAME_ARCH, *distance, bool(row["unraced"]), row["rank_s"], row["id"])
            found.append((closeness, match, row))
    if not found:
        return None
    _, match, row = min(found, key=lambda entry: entry[0])
    return _first(shared, [row], match)


def _match(row: Mapping[str, Any], wanted: Target) -> Match:
    near = row["near_cpu"], row["near_features"], row["near_threads"]
    same = near == (wanted.cpu, wanted.features, wanted.threads)
    return Match.SAME_CPU if same else Match.SAME_ARCH


def _first(shared: Shared, rows: Sequence[Mapping[str, Any]], match: Match) -> Best | None:
    if not rows:
        return None
    row = rows[0]
    return Best(shared.record(row), match, time_s=row["rank_s"], raced=not row["unraced"])


def quick_best(
    url: str | os.PathLike[str] | None,
    workload_hash: str,
    target: Target | str | None = None,
    within: Match = Match.SAME_ARCH,
    cache: str = "warm",
) -> Best | None:
    """``Store.best`` without opening a store. Never writes. The default database need not exist yet.

    Anything unusual (another kind of database, an older schema, a fault) goes through ``open_store``,
    which knows how to handle or to explain it.
    """
    path = sqlite_path(normalize(default_url() if url is None else url))
    if url is None and path is not None and not path.exists():
        return None
    if path is not None:
        with contextlib.suppress(sqlite3.Error), _rows_of(path) as fetch:
            if fetch("SELECT 1 FROM alembic_version WHERE version_num = :head", {"head": HEAD}):
                return find_best(fetch, workload_hash, target, within, cache)
    from tunesmith.db.store import open_store

    with open_store(url, create=False) as store:
        return store.best(workload_hash, target, within, cache)


@contextlib.contextmanager
def _rows_of(path: Path) -> Iterator[Fetch]:
    connection = connect_sqlite(path, read_only=True, busy_timeout_s=20.0)
    connection.row_factory = sqlite3.Row
    try:
        yield lambda sql, values: connection.execute(sql, values).fetchall()
    finally:
        connection.close()
