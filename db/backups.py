"""Backups of SQLite databases: consistent while others write, and whole or not there at all."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tunesmith.db.engine import Database
from tunesmith.db.errors import DatabaseLocked, DatabaseUnavailable
from tunesmith.db.inspection import inspect
from tunesmith.db.schema import ensure_schema
from tunesmith.db.urls import normalize, sqlite_path

__all__ = ["backup", "restore"]

_PAGES = 2000  # copied at a time; writers get their turn in between
_PAUSE_S = 0.002
_PATIENCE_S = 5.0


def backup(url: str, to: Path, *, force: bool = False) -> int:
    """Copies a database to a file, which appears under its name when it is complete and on disk; returns its
    size in bytes. Raises ``DatabaseUnavailable``, also for what is no SQLite database and for a file that
    exists, without ``force``.
    """
    source = _file_of(url, "pg_dump --format=custom makes a backup of it")
    if to.exists() and not force:
        raise DatabaseUnavailable(f"{to} exists. Choose another name, or overwrite it with --force.")
    if to.exists() and to.samefile(source):
        raise DatabaseUnavailable(f"{to} is the database itself")
    partial = to.with_name(f"{to.name}.{os.getpid()}.partial")
    try:
        with _opened(source, "ro") as original, _opened(partial, "rwc") as copy:
            original.backup(copy, pages=_PAGES, sleep=_PAUSE_S)
            _check(copy, source)
        _sync(partial)
        os.replace(partial, to)
        _sync(to.parent)
    except OSError as fault:
        raise DatabaseUnavailable(f"{to} cannot be written: {fault.strerror}") from fault
    finally:
        partial.unlink(missing_ok=True)
    return to.stat().st_size


def restore(url: str, source: Path, *, force: bool = False) -> None:
    """Puts a backup in the place of a database, in one transaction: after a kill the old one is still there.

    The backup is checked before, and brought to this version's schema after. Raises ``DatabaseUnavailable``
    for one that is damaged, of another program or of a newer schema, and for a database that holds something,
    without ``force``; ``DatabaseLocked`` while another process writes.
    """
    place = _file_of(url, "pg_restore brings a backup back")
    if not source.is_file():
        raise DatabaseUnavailable(f"there is no backup at {source}")
    found = inspect(str(source))
    if found.state not in ("current", "older"):
        raise DatabaseUnavailable(f"{source} cannot be used by this version: its schema is {found.state}")
    if place.exists() and not force and _holds_something(place):
        raise DatabaseUnavailable(f"{place} is not empty. Replace what it holds with --force.")
    with _opened(source, "ro") as backed, _opened(place, "rwc") as database:
        _check(backed, source)
        backed.backup(database)
    restored = Database(normalize(str(place)))
    try:
        ensure_schema(restored, create=False)
    finally:
        restored.close()


def _holds_something(place: Path) -> bool:
    if not place.stat().st_size:
        return False
    found = inspect(str(place))
    return found.state in ("newer", "foreign") or any(found.counts.values())


def _file_of(url: str, instead: str) -> Path:
    path = sqlite_path(normalize(url))
    if path is None:
        raise DatabaseUnavailable(f"this is for SQLite; of PostgreSQL, {instead}")
    return path


@contextlib.contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    if mode == "ro" and not path.is_file():
        raise DatabaseUnavailable(f"there is no database at {path}")
    connection = None
    try:
        address = f"file:{quote(str(path))}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE_S, isolation_level=None)
        yield connection
    except sqlite3.OperationalError as fault:
        if "locked" in str(fault) or "busy" in str(fault):
            raise DatabaseLocked(f"{path} is in use by another process. Stop it, and repeat.") from fault
        raise DatabaseUnavailable(f"{path}: {fault}") from fault
    except sqlite3.DatabaseError as fault:
        raise DatabaseUnavailable(f"{path} is damaged: {fault}") from fault
    finally:
        if connection is not None:
            connection.close()


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DatabaseUnavailable(f"{path} is damaged: {found}")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
