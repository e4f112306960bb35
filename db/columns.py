"""Column types with one meaning on every database."""

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from tunesmith.db.codec import parse_time, time_text

__all__ = ["Id", "Json", "UtcDateTime"]


class UtcDateTime(TypeDecorator[dt.datetime]):
    """An instant. Naive datetimes are refused, since nobody can tell later which zone they meant.

    SQLite has no such type and keeps text of fixed width, so that the order of the text is that of time.
    """

    impl = sa.String(27)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String(27))
        return dialect.type_descriptor(sa.TIMESTAMP(timezone=True))

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        text = time_text(value)
        return text if dialect.name == "sqlite" else value.astimezone(dt.UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> dt.datetime | None:
        return None if value is None else parse_time(value)


def Id(length: int = 36) -> sa.String:
    """An id, compared byte by byte everywhere, so that a prefix is a range."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""A JSON document; None is SQL's NULL."""
