"""Cursors: where a page ended, as an opaque text that is valid for one query only.

Pages continue after the last row's sort key (keyset), so rows that come or go between two pages never
make one appear twice or vanish.
"""

import base64
import binascii
import contextlib
import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tunesmith.db.codec import plain_text, time_text
from tunesmith.db.engine import ReadSession, Row
from tunesmith.db.errors import BadCursor, BadQuery

__all__ = ["MAX_LIMIT", "Keyset", "decode_cursor", "encode_cursor", "query_digest"]

MAX_LIMIT = 10_000


def query_digest(query: Mapping[str, Any]) -> str:
    """Identifies filters and order; cursors carry it."""
    text = json.dumps(query, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def encode_cursor(digest: str, key: Sequence[Any]) -> str:
    text = json.dumps([digest, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, digest: str) -> list[Any]:
    """The sort key in ``cursor``. Raises ``BadCursor`` unless it was made for the query of ``digest``."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        data = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, UnicodeDecodeError, ValueError, RecursionError) as fault:
        raise BadCursor("the cursor is damaged; start again without one") from fault
    if not isinstance(data, list) or not data or not isinstance(data[0], str):
        raise BadCursor("the cursor is damaged; start again without one")
    found, *key = data
    if found != digest:
        raise BadCursor(
            "the cursor belongs to a query with other filters or another order; start again without"
        )
    return key


class Keyset:
    """A query's order: ``columns`` with the types ``kinds``, ending in a unique one, all ascending or
    all descending. ``query`` is what cursors are bound to."""

    def __init__(
        self,
        query: Mapping[str, Any],
        columns: Sequence[sa.Column[Any]],
        kinds: Sequence[type],
        *,
        descending: bool,
    ) -> None:
        self._digest = query_digest(query)
        self._columns = columns
        self._kinds = kinds
        self._descending = descending

    def page(
        self,
        session: ReadSession,
        query: sa.Select[Any],
        limit: int,
        cursor: str | None,
        parts: Sequence[sa.ColumnElement[bool]] = (),
    ) -> tuple[Sequence[Row], str | None]:
        """At most ``limit`` rows after ``cursor``, and the cursor of the next page if there is one.

        ``parts`` are conditions that split the rows among them, where an index has the order of each part
        but none that of the whole: the first of every part are merged.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise BadQuery(f"limit must be between 1 and {MAX_LIMIT}, not {limit}")
        wanted = query if cursor is None else query.where(self._after(cursor))
        if parts:
            wanted = query.where(self._columns[-1].in_(self._merged(wanted, limit + 1, parts)))
        rows = session.rows(self._first(wanted, self._columns, limit + 1))
        if len(rows) <= limit:
            return rows, None
        last = rows[limit - 1]
        key = [_plain(last[column.key]) for column in self._columns]
        return rows[:limit], encode_cursor(self._digest, key)

    def _first(
        self, query: sa.Select[Any], columns: Sequence[sa.ColumnElement[Any]], count: int
    ) -> sa.Select[Any]:
        return query.order_by(*(c.desc() if self._descending else c.asc() for c in columns)).limit(count)

    def _merged(
        self, query: sa.Select[Any], count: int, parts: Sequence[sa.ColumnElement[bool]]
    ) -> sa.Select[Any]:
        """The unique keys of the first ``count`` rows, from the first ``count`` of each part."""
        keys = query.with_only_columns(*self._columns, maintain_column_froms=True)
        firsts = [self._first(keys.where(part), self._columns, count).subquery() for part in parts]
        merged = sa.union_all(*(sa.select(first) for first in firsts)).subquery()
        columns = [merged.c[column.key] for column in self._columns]
        return self._first(sa.select(columns[-1]), columns, count)

    def _after(self, cursor: str) -> sa.ColumnElement[bool]:
        values = decode_cursor(cursor, self._digest)
        if len(values) != len(self._kinds):
            raise BadCursor("the cursor is damaged; start again without one")
        key = [_typed(value, kind) for value, kind in zip(values, self._kinds, strict=True)]
        bound = sa.tuple_(*(sa.literal(v, c.type) for v, c in zip(key, self._columns, strict=True)))
        row = sa.tuple_(*self._columns)
        return row < bound if self._descending else row > bound


def _plain(value: Any) -> Any:
    return time_text(value) if isinstance(value, dt.datetime) else value


def _typed(value: Any, kind: type) -> Any:
    """As the column has it. Cursors are no secret, so anything may stand in one."""
    if kind is dt.datetime and isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            instant = dt.datetime.fromisoformat(value)
            value = instant.astimezone(dt.UTC) if instant.tzinfo else None
    if type(value) is not kind or (isinstance(value, str) and plain_text(value) != value):
        raise BadCursor("the cursor is damaged; start again without one")
    return value
