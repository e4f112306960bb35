"""Bringing a database to the schema this version uses, when it is opened.

An up-to-date database is recognised by one SELECT; Alembic is imported only when there is work.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from tunesmith.db.engine import Database
from tunesmith.db.errors import DatabaseUnavailable, SchemaTooNew
from tunesmith.db.revisions import HEAD, REVISIONS

__all__ = ["ensure_schema", "one_at_a_time", "stored_revision", "upgrade"]

_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK_KEY = 0x74756E65736D  # PostgreSQL's advisory locks are numbers: "tunesm"


def ensure_schema(database: Database, *, create: bool) -> None:
    """Creates or upgrades the schema. Safe when several processes open the same new database at once.

    Raises ``SchemaTooNew`` for a newer schema and ``DatabaseUnavailable`` when there is no database and
    none may be created, or when what is there belongs to another program.
    """
    if database.path and not database.path.exists():
        _create_file(database.path, create=create and not database.read_only)
    found = _revision(database)
    if found == HEAD:
        _share(database)
        return
    if database.read_only or (found is None and not create):
        what = "is not a Tunesmith database yet" if found is None else f"has the older schema {found}"
        raise DatabaseUnavailable(
            f"{database.where} {what}. `tunesmith db upgrade` brings it up to date, where it can be written."
        )
    with one_at_a_time(database):
        if _revision(database) != HEAD:
            upgrade(database)


def upgrade(database: Database) -> None:
    """Runs all missing migrations in one transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    with database.engine.connect() as connection:
        _use_wal(connection, database)
    with database.engine.connect().execution_options(tunesmith_write=True) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_KEY)))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _create_file(path: Path, *, create: bool) -> None:
    if not create:
        raise DatabaseUnavailable(f"there is no database at {path}. Check the path, or tune something first.")
    if not path.parent.is_dir():
        raise DatabaseUnavailable(
            f"the folder {path.parent} does not exist. Create it, or choose another path."
        )
    try:
        path.touch()
    except OSError as fault:
        raise DatabaseUnavailable(f"{path} cannot be created: {fault.strerror}") from fault


def _revision(database: Database) -> str | None:
    """The schema's revision; None for an empty database."""
    found = database.read(lambda session: stored_revision(session._connection))
    if found is None or found in REVISIONS:
        return found
    if re.fullmatch(r"\d{4}", found):
        raise SchemaTooNew(database.where, found, HEAD)
    raise DatabaseUnavailable(f"{database.where} belongs to another program. Choose another database.")


def stored_revision(connection: Connection) -> str | None:
    """None for an empty database, "foreign" for one of another program."""
    tables = set(sa.inspect(connection).get_table_names())
    if "alembic_version" in tables:
        return connection.scalar(sa.text("SELECT version_num FROM alembic_version")) or None
    return "foreign" if tables and connection.dialect.name == "sqlite" else None


def _share(database: Database) -> None:
    """A backup that was copied into place is not in the mode that lets readers and a writer work at once."""
    if database.path is None or database.read_only or not os.access(database.path, os.W_OK):
        return
    with database.engine.connect() as connection:
        raw = connection.connection.cursor()
        mode = raw.execute("PRAGMA journal_mode").fetchone()[0]
        raw.close()
        if mode == "delete" and os.access(database.path.parent, os.W_OK):
            with one_at_a_time(database):
                _use_wal(connection, database)


def _use_wal(connection: Connection, database: Database) -> None:
    if connection.dialect.name != "sqlite":
        return
    raw = connection.connection.cursor()  # outside of any transaction, where alone the mode can change
    mode = raw.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    raw.close()
    if mode != "wal":
        raise DatabaseUnavailable(
            f"the file system of {database.where} cannot hold a shared database (network drive?). "
            "Choose a local folder, or PostgreSQL."
        )


@contextlib.contextmanager
def one_at_a_time(database: Database) -> Iterator[None]:
    """Holds a file lock: switching a new file to WAL is not covered by SQLite's own waiting."""
    if database.path is None:
        yield
        return
    with _lock_file(database.path) as lock:
        try:
            import fcntl
        except ModuleNotFoundError:  # Windows; two first starts at once may then have to be repeated
            yield
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_file(path: Path) -> TextIO:
    try:
        return path.with_name(path.name + ".lock").open("a")
    except OSError as fault:
        raise DatabaseUnavailable(
            f"the folder of {path} is not writable ({fault.strerror}), and the schema is not the newest. "
            "Run `tunesmith db upgrade` where it can be written."
        ) from fault
