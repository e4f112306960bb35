"""The lookup of the best record: one set of queries, run through SQLAlchemy by the store, or straight
through ``sqlite3`` for commands that have to answer at once (loading SQLAlchemy takes 0.2 s).

Every query walks ``ix_record_best``: O(log n) in the records, times the number of similar targets.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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

__all__ = ["Fetch", "Shared", "find_best", "quick_best"]

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
    "SELECT id, cpu, features, threads, vector_bytes, (SELECT r.id FROM record r"
    " WHERE r.workload_id = :workload AND r.target_id = target.id AND r.cache = :cache"
    " AND r.rank_s IS NOT NULL ORDER BY r.unraced, r.rank_s, r.id LIMIT 1) AS record_id"
    " FROM target WHERE arch = :arch"
)


class Shared:
    """Reads rows shared by many records once. Both kinds of row never change what is read here."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._workloads: dict[str, Workload] = {}
        self._targets: dict[str, Target] = {}

    def workload(self, key: str) -> Workload | None:
        if key not in self._workloads:
            rows = self._fetch("SELECT * FROM workload WHERE id = :id", {"id": key})
            if not rows:
                return None
            self._workloads[key] = workload_from_row(rows[0])
        return self._workloads[key]

    def target(self, key: str) -> Target | None:
        if key not in self._targets:
            rows = self._fetch("SELECT * FROM target WHERE id = :id", {"id": key})
            if not rows:
                return None
            self._targets[key] = target_from_row(rows[0])
        return self._targets[key]

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
) -> Best | None:
    """The record to serve for a workload, from the closest target that has one.

    ``target`` is a target, the fingerprint of one that the database knows, or None for any. ``within``
    is the loosest match that is still acceptable. Among equally close targets the fastest wins. Only
    records measured with the caches in the state ``cache`` count.
    """
    wanted_of = {"workload": workload_hash, "cache": cache}
    shared = Shared(fetch)
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
    for near in fetch(_SIMILAR, {**wanted_of, "arch": wanted.arch}):
        match = _match(near, wanted)
        if near["record_id"] is None or not within.covers(match):
            continue
        row = fetch(f"SELECT {_COLUMNS} FROM record WHERE id = :id", {"id": near["record_id"]})[0]
        distance = (near["threads"] != wanted.threads, near["vector_bytes"] != wanted.vector_bytes)
        closeness = (match is Match.SAME_ARCH, *distance, bool(row["unraced"]), row["rank_s"], row["id"])
        found.append((closeness, match, row))
    if not found:
        return None
    _, match, row = min(found, key=lambda entry: entry[0])
    return _first(shared, [row], match)


def _match(near: Mapping[str, Any], wanted: Target) -> Match:
    same = (near["cpu"], near["features"], near["threads"]) == (wanted.cpu, wanted.features, wanted.threads)
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
