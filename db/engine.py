"""Connections and transactions. The only place that knows how SQLite and PostgreSQL differ in them.

SQLite: WAL, so that readers never wait for the writer; write transactions take the write lock when
they begin (``BEGIN IMMEDIATE``), since upgrading a read lock later fails at once, whatever the timeout.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine

from tunesmith.db.errors import BadQuery, DatabaseUnavailable
from tunesmith.db.faults import UNSTORABLE, is_read_only, is_transient, locked, translate
from tunesmith.db.raw import compact_json, connect_sqlite
from tunesmith.db.urls import sqlite_path, without_password

__all__ = ["PATIENCE", "Database", "ReadSession", "Row", "WriteSession"]

T = TypeVar("T")
_TRIES = 5
PATIENCE = {"connect_timeout": "10", "keepalives_idle": "30", "tcp_user_timeout": "30000"}
"""With a PostgreSQL server that does not answer, in libpq's words; what stands in the URL goes before."""

_POOL = {"pool_size": 24, "max_overflow": 41}
"""Connections that are kept, and how many more there may be: a server answers with 40 threads, and opening
one takes PostgreSQL as long as a dozen lookups."""

Row = Mapping[str, Any]
"""One row by column name."""


class ReadSession:
    """One consistent view of the database. Lives as long as the function it was given to."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def is_postgres(self) -> bool:
        return self._connection.dialect.name == "postgresql"

    def rows(self, query: sa.Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Rows of a query, with ``values`` for its bound names."""
        return cast(Sequence[Row], self._connection.execute(query, values or {}).mappings().all())

    def first(self, query: sa.Select[Any]) -> Row | None:
        return cast(Row | None, self._connection.execute(query).mappings().first())

    def fetch(self, sql: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """Rows of a query in plain SQL with ``:named`` values."""
        return cast(Sequence[Row], self._connection.execute(sa.text(sql), dict(values)).mappings().all())


class WriteSession(ReadSession):
    """One transaction: committed when the function it was given to returns, undone when it raises."""

    def run(self, statement: sa.Update) -> int:
        """Executes a change; returns the number of rows it found."""
        return self._connection.execute(statement).rowcount

    def run_all(self, statement: sa.Update | sa.Insert, rows: Sequence[Mapping[str, Any]]) -> None:
        """Executes a change for each of several rows of values."""
        if rows:
            self._connection.execute(statement, [dict(row) for row in rows])

    def delete(self, statement: sa.Delete) -> int:
        """Executes a deletion; returns the number of rows it took away."""
        return self._connection.execute(statement).rowcount

    def insert_new(self, table: sa.Table, row: Mapping[str, Any]) -> bool:
        """Inserts unless a row with that key exists; returns whether it did."""
        dialect = postgresql if self.is_postgres else sqlite
        statement = dialect.insert(table).on_conflict_do_nothing().returning(table.c.id)
        return self._connection.execute(statement, dict(row)).first() is not None


class Database:
    """A pool of connections. Thread-safe; every call uses a connection of its own.

    ``read`` and ``write`` run a function inside a transaction and return what it returns. ``write``
    runs it again (up to five times) when the database says so, hence the function must not have
    effects elsewhere. Both raise only ``StoreError`` for faults of the database, ``BadQuery`` for values that
    it cannot hold.
    """

    def __init__(self, url: str, *, read_only: bool = False, busy_timeout_s: float = 20.0) -> None:
        self.url = url
        self.read_only = read_only
        self.path = sqlite_path(url)
        self._busy_timeout_s = busy_timeout_s
        self._writing = threading.Lock()
        self.engine = self._sqlite_engine() if self.path else self._postgres_engine()

    @property
    def where(self) -> str:
        """The database in words for messages, without its password."""
        return str(self.path) if self.path else without_password(self.url)

    def read(self, work: Callable[[ReadSession], T]) -> T:
        def attempt() -> T:
            with self.engine.connect() as connection:
                return work(ReadSession(connection))

        return self._guarded(attempt)

    def write(self, work: Callable[[WriteSession], T]) -> T:
        if self.read_only:
            raise DatabaseUnavailable(f"{self.where} is opened for reading only")

        def attempt() -> T:
            engine = self.engine.execution_options(tunesmith_write=True)
            with self._turn(), engine.begin() as connection:
                return work(WriteSession(connection))

        return self._guarded(attempt)

    def close(self) -> None:
        self.engine.dispose()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread at a time writes to a SQLite file: those that wait for its own lock sleep for longer and
        longer, up to a tenth of a second, while others take it."""
        if self.path is None:
            yield
            return
        if not self._writing.acquire(timeout=self._busy_timeout_s):
            raise locked(self.where)
        try:
            yield
        finally:
            self._writing.release()

    def _guarded(self, attempt: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._busy_timeout_s
        for left in reversed(range(_TRIES)):
            try:
                return attempt()
            except sa.exc.DBAPIError as fault:
                error = translate(fault, self.where)
                if error is None:
                    raise
                if not is_transient(fault) or not left or time.monotonic() > deadline:
                    if is_read_only(fault):
                        self.close()  # what was opened for reading remains so when the file may be written
                    raise error from fault
                time.sleep(random.uniform(0.01, 0.1) * (_TRIES - left))
            except sa.exc.StatementError as fault:  # raised while values were made ready
                if not isinstance(fault.orig, OverflowError | UnicodeError):
                    raise
                raise BadQuery(UNSTORABLE) from fault
            except UnicodeEncodeError as fault:
                raise BadQuery(UNSTORABLE) from fault
        raise AssertionError("the last try returns or raises")

    def _sqlite_engine(self) -> Engine:
        assert self.path
        engine = sa.create_engine(
            "sqlite+pysqlite://",
            creator=self._connect_sqlite,
            poolclass=sa.pool.QueuePool,
            **_POOL,
            json_serializer=compact_json,
        )
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _connect_sqlite(self) -> Any:
        assert self.path
        return connect_sqlite(self.path, read_only=self.read_only, busy_timeout_s=self._busy_timeout_s)

    def _postgres_engine(self) -> Engine:
        try:
            return sa.create_engine(
                self.url,
                pool_pre_ping=True,
                **_POOL,
                json_serializer=compact_json,
                connect_args={k: v for k, v in PATIENCE.items() if k not in sa.make_url(self.url).query},
            )
        except ModuleNotFoundError as missing:
            raise DatabaseUnavailable(
                f"PostgreSQL needs a driver: pip install 'psycopg[binary]' ({missing})"
            ) from missing


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get("tunesmith_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
