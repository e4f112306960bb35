"""Care of a database as a whole: its condition, upgrades, backups, and putting a backup in place.

Backups are of SQLite files. PostgreSQL has better tools of its own, which the messages name.
"""

import contextlib
import datetime as dt
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tunesmith.db.engine import Database, ReadSession
from tunesmith.db.errors import Conflict, DatabaseUnavailable, NotFound, SchemaTooNew
from tunesmith.db.models import metadata
from tunesmith.db.raw import connect_sqlite
from tunesmith.db.revisions import HEAD, REVISIONS
from tunesmith.db.schema import ensure_schema, one_at_a_time, stored_revision
from tunesmith.db.urls import default_url, normalize

__all__ = ["Condition", "Upgraded", "backup", "condition", "restore", "upgrade_database"]

_SHARED = (0x40000002, 510)
"""Where the bytes are that every connection to a SQLite file holds locked, and how many."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``found`` is the schema's revision, None without one; ``head`` the newest that this version knows.

    ``state``: current, older, newer, empty, absent, or foreign: another program's. ``counts``: rows by table.
    """

    where: str
    state: str
    found: str | None
    head: str
    size_bytes: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Upgraded:
    """``backup`` is the copy of the file as it was before, if there was anything in it to lose."""

    where: str
    before: str | None
    after: str
    backup: Path | None


def condition(url: str | os.PathLike[str] | None) -> Condition:
    """Of any database, whatever its schema; changes nothing. Raises ``DatabaseUnavailable``."""
    database = _opened(url, read_only=True)
    if database.path and not database.path.exists():
        return Condition(database.where, "absent", None, HEAD, 0, {})
    with contextlib.closing(database):
        return database.read(lambda session: _condition(session, database))


def upgrade_database(url: str | os.PathLike[str] | None) -> Upgraded:
    """Brings the schema to the newest one. A SQLite file with data is copied beside itself before.

    Several processes may do so at once. Raises ``SchemaTooNew`` and ``DatabaseUnavailable``.
    """
    database = _opened(url)
    with contextlib.closing(database):
        before = condition(url)
        copy: Path | None = None
        if database.path and before.state == "older" and sum(before.counts.values()):
            stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S%fZ")
            copy = database.path.with_name(f"{database.path.name}.{before.found}.{stamp}.backup")
            backup(url, copy)
        ensure_schema(database, create=True)
        return Upgraded(database.where, before.found, HEAD, copy)


def backup(url: str | os.PathLike[str] | None, to: Path, *, overwrite: bool = False) -> int:
    """Copies a SQLite database in use to ``to``: one consistent moment of it; returns the copy's size.

    The file appears under its name when it is whole, checked and on disk. Raises ``Conflict`` when there is
    one already, ``DatabaseUnavailable`` for other databases and for a damaged one.
    """
    path = _sqlite_file(url, "pg_dump --format=custom --file={file} {url}", to)
    if to.exists() and not overwrite:
        raise Conflict(f"{to} is there already; choose another name, or say --force")
    with _part_of(to) as part:
        _copy(path, part)
        _check_whole(part, path)
        _set_journal(part, "DELETE")  # one file is all there is of it, and any medium can hold it
        _put(part, to, overwrite=overwrite)
    return to.stat().st_size


def restore(url: str | os.PathLike[str] | None, source: Path, *, overwrite: bool = False) -> Condition:
    """Puts a copy of the backup ``source`` in the place of a SQLite database; returns what is there now.

    The backup is checked before anything is touched. Raises ``Conflict`` when the database holds data
    (unless ``overwrite``) or another process has it open, ``SchemaTooNew`` for a newer backup, and
    ``DatabaseUnavailable`` for one that is damaged or no Tunesmith database.
    """
    path = _sqlite_file(url, "pg_restore --clean --if-exists --dbname={url} {file}", source)
    if not source.is_file():
        raise NotFound("backup", str(source))
    _check_backup(source)
    if path.exists() and not overwrite:
        _check_empty(path)
    database = Database(f"sqlite:///{path}")
    with contextlib.closing(database), one_at_a_time(database), _part_of(path) as part:
        _copy(source, part)
        _check_whole(part, source)
        _set_journal(part, "WAL")
        _replace(path, part)
    return condition(f"sqlite:///{path}")


def _opened(url: str | os.PathLike[str] | None, *, read_only: bool = False) -> Database:
    return Database(normalize(default_url() if url is None else url), read_only=read_only)


def _sqlite_file(url: str | os.PathLike[str] | None, instead: str, file: Path) -> Path:
    database = _opened(url)
    if database.path is None:
        plain = database.engine.url.set(drivername="postgresql", password=None)
        command = instead.format(url=f"'{plain.render_as_string()}'", file=file)
        raise DatabaseUnavailable(
            f"this command is for SQLite files; PostgreSQL has its own: {command}\n"
            "`tunesmith db export` and `import` carry the records between any two databases."
        )
    return database.path


# -- what there is ------------------------------------------------------------------------------------------


def _condition(session: ReadSession, database: Database) -> Condition:
    connection = session._connection
    found = stored_revision(connection)
    counts = {} if found == "foreign" else _counts(connection)
    return Condition(
        database.where, _state(found), None if found == "foreign" else found, HEAD,
        _size_bytes(connection, database.path, counts), counts,
    )  # fmt: skip


def _state(found: str | None) -> str:
    if found is None:
        return "empty"
    if found in REVISIONS:
        return "current" if found == HEAD else "older"
    return "newer" if re.fullmatch(r"\d{4}", found) else "foreign"


def _counts(connection: Connection) -> dict[str, int]:
    there = set(sa.inspect(connection).get_table_names())
    known = [table for table in metadata.sorted_tables if table.name in there]
    counted = sa.func.count().label("n")
    return {
        t.name: connection.scalar(sa.select(counted).select_from(sa.table(t.name))) or 0 for t in known
    }


def _size_bytes(connection: Connection, path: Path | None, tables: dict[str, int]) -> int:
    if path is not None:
        files = (path, path.with_name(f"{path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())
    size = sa.text("SELECT pg_total_relation_size(to_regclass(:name))")
    return sum(connection.scalar(size, {"name": name}) or 0 for name in tables)


# -- copies -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """A name beside ``path`` for a file in the making; nothing is left there."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        for name in (part.name, f"{part.name}-wal", f"{part.name}-shm", f"{part.name}-journal"):
            part.with_name(name).unlink(missing_ok=True)


def _copy(source: Path, to: Path) -> None:
    """In one step, which is one read transaction: writers go on, and the copy is of one moment."""
    with (
        _told(source),
        contextlib.closing(connect_sqlite(source, read_only=True, busy_timeout_s=20)) as old,
        contextlib.closing(sqlite3.connect(to, isolation_level=None)) as new,
    ):
        old.backup(new)


def _put(part: Path, to: Path, *, overwrite: bool) -> None:
    """On disk under its name, whole or not at all."""
    _sync(part)
    if overwrite:
        part.replace(to)
    else:
        try:
            os.link(part, to)
        except FileExistsError:
            raise Conflict(f"{to} has come into being meanwhile; choose another name") from None
    _sync(to.parent)


def _sync(path: Path) -> None:
    with contextlib.suppress(PermissionError):  # Windows has no handles of folders
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as fault:
        raise DatabaseUnavailable(f"{path} cannot be copied: {fault}") from fault


def _check_whole(path: Path, source: Path) -> None:
    with _told(source), contextlib.closing(sqlite3.connect(path)) as connection:
        faults = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
        if faults != ["ok"]:
            raise DatabaseUnavailable(f"{source} is damaged: {'; '.join(faults)}")


# -- putting a backup in place ------------------------------------------------------------------------------


def _check_backup(source: Path) -> None:
    with source.open("rb") as file:
        is_sqlite = file.read(16) == b"SQLite format 3\0"
    if not is_sqlite:
        raise DatabaseUnavailable(f"{source} is no backup: it is not a SQLite database")
    found = condition(f"sqlite:///{source}")
    if found.state == "newer":
        raise SchemaTooNew(str(source), str(found.found), HEAD)
    if found.state not in ("current", "older"):
        raise DatabaseUnavailable(f"{source} is no backup of a Tunesmith database")


def _check_empty(path: Path) -> None:
    if path.stat().st_size:
        try:
            there = condition(f"sqlite:///{path}")
        except DatabaseUnavailable as fault:
            raise Conflict(f"{fault} --force replaces it.") from fault
        if there.state == "foreign" or any(there.counts.values()):
            raise Conflict(f"{path} holds data; --force replaces it (take a backup first)")


def _set_journal(path: Path, mode: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")


def _replace(path: Path, part: Path) -> None:
    """What the old file's log holds is folded into it before, so that no log of it can meet the new file."""
    log = path.with_name(f"{path.name}-wal")
    if path.exists() and path.stat().st_size:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, timeout=1)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with _alone(path):
        log.unlink(missing_ok=True)
        log.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        _put(part, path, overwrite=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds the lock that every connection to a SQLite file shares. Raises ``Conflict`` when one does."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows does not let an open file be replaced
        yield
        return
    if not path.exists():
        yield
        return
    with path.open("r+b") as file:
        offset, length = _SHARED
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, offset)
        except OSError:
            raise Conflict(
                f"another process has {path} open; stop the server and the tuners that use it"
            ) from None
        yield
