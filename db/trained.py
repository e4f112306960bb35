"""Trained cost models that were uploaded: their files, and what they say of themselves."""

import datetime as dt
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import plain_text
from tunesmith.db.engine import Database, ReadSession, Row, WriteSession
from tunesmith.db.errors import NotFound
from tunesmith.db.pages import Keyset
from tunesmith.db.values import Page
from tunesmith.records import new_id

__all__ = ["TrainedModel", "TrainedModels"]

_table = models.model
_SHOWN = [c for c in _table.c if c.name not in ("data", "target_id")]
_size = sa.func.length(_table.c.data).label("size_bytes")


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """``feature_schema`` is the version of the features that it was trained with: a model of another version
    than the tuner's is not used. ``about`` is what the file says of itself."""

    id: str
    name: str
    feature_schema: int
    n_records: int
    about: dict[str, Any]
    sha256: str
    size_bytes: int
    created_at: dt.datetime


class TrainedModels:
    """The model table. Every method is one transaction and thread-safe."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    def put(
        self, name: str, data: bytes, *, feature_schema: int, n_records: int, about: dict[str, Any]
    ) -> tuple[TrainedModel, bool]:
        """Stores a file unless it is there already (under whatever name); whether it is new."""
        sha256 = hashlib.sha256(data).hexdigest()
        row = {
            "id": new_id(),
            "name": plain_text(name),
            "feature_schema": feature_schema,
            "n_records": n_records,
            "metrics": about,
            "sha256": sha256,
            "data": data,
            "created_at": self._clock(),
        }

        def work(session: WriteSession) -> tuple[TrainedModel, bool]:
            new = session.insert_new(_table, row)
            found = session.first(sa.select(*_SHOWN, _size).where(_table.c.sha256 == sha256))
            assert found is not None
            return _model(found), new

        return self._database.write(work)

    def get(self, model_id: str) -> TrainedModel:
        """Raises ``NotFound``."""
        return _model(self._row(model_id, sa.select(*_SHOWN, _size)))

    def data(self, model_id: str) -> bytes:
        """The file. Raises ``NotFound``."""
        return bytes(self._row(model_id, sa.select(_table.c.data))["data"])

    def list(
        self, *, name: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[TrainedModel]:
        """Newest first, without their files."""
        key = [_table.c.created_at, _table.c.id]
        keyset = Keyset({"of": "model", "name": name}, key, [dt.datetime, str], descending=True)
        query = sa.select(*_SHOWN, _size)
        if name is not None:
            query = query.where(_table.c.name == plain_text(name))

        def work(session: ReadSession) -> Page[TrainedModel]:
            rows, following = keyset.page(session, query, limit, cursor)
            return Page(tuple(_model(row) for row in rows), following)

        return self._database.read(work)

    def _row(self, model_id: str, query: sa.Select[Any]) -> Row:
        found = self._database.read(
            lambda session: session.first(query.where(_table.c.id == plain_text(model_id)))
        )
        if found is None:
            raise NotFound("model", model_id)
        return found


def _model(row: Row) -> TrainedModel:
    values = {name: row[name] for name in TrainedModel.__slots__ if name != "about"}
    return TrainedModel(about=row["metrics"], **values)
