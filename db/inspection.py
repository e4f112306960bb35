"""What a database is, whatever its schema: older, newer, empty or of another program."""

import re
from dataclasses import dataclass

import sqlalchemy as sa

from tunesmith.db.engine import Database, ReadSession
from tunesmith.db.revisions import HEAD, REVISIONS
from tunesmith.db.urls import normalize

__all__ = ["Inspection", "inspect"]

_COUNTED = ("workload", "target", "job", "record", "artifact", "model", "api_key", "event")


@dataclass(frozen=True, slots=True)
class Inspection:
    """``revision`` is None for an empty database. ``counts`` has the rows of the tables that there are;
    ``size_bytes`` is of all of it, indices and the write-ahead log included."""

    where: str
    kind: str
    revision: str | None
    size_bytes: int
    counts: dict[str, int]

    @property
    def state(self) -> str:
        """empty, current, older, newer or foreign."""
        if self.revision is None:
            return "empty"
        if self.revision in REVISIONS:
            return "current" if self.revision == HEAD else "older"
        return "newer" if re.fullmatch(r"\d{4}", self.revision) else "foreign"


def inspect(url: str) -> Inspection:
    """Changes nothing. Raises ``DatabaseUnavailable`` when there is nothing to look at."""
    database = Database(normalize(url), read_only=True)
    try:
        return database.read(lambda session: _inspected(session, database))
    finally:
        database.close()


def _inspected(session: ReadSession, database: Database) -> Inspection:
    connection = session._connection
    tables = set(sa.inspect(connection).get_table_names())
    revision = None
    if "alembic_version" in tables:
        revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    elif tables and not session.is_postgres:
        revision = "foreign"
    counts = {}
    for name in _COUNTED:
        if name in tables:
            counts[name] = int(connection.scalar(sa.select(sa.func.count()).select_from(sa.table(name))) or 0)
    kind = "postgresql" if session.is_postgres else "sqlite"
    return Inspection(database.where, kind, revision, _size(session, database), counts)


def _size(session: ReadSession, database: Database) -> int:
    if session.is_postgres:
        (row,) = session.fetch("SELECT pg_database_size(current_database()) AS size", {})
        return int(row["size"])
    assert database.path
    files = (database.path.with_name(database.path.name + end) for end in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
