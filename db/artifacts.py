"""What was built from records: LLVM IR, assembly, objects, shared libraries, headers."""

import datetime as dt
import hashlib
from collections.abc import Callable

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.engine import Database, ReadSession, WriteSession
from tunesmith.db.errors import NotFound
from tunesmith.db.values import Artifact
from tunesmith.records import new_id

__all__ = ["Artifacts"]

_table = models.artifact


class Artifacts:
    """The artifact table. Every method is one transaction and thread-safe."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    def get(self, record_id: str, kind: str) -> Artifact | None:
        """None when it has not been built yet."""
        return self._database.read(lambda session: _load(session, record_id, kind))

    def put(self, record_id: str, kind: str, data: bytes) -> Artifact:
        """Stores it unless it is there already; returns what is stored, so that it never changes.

        Raises ``NotFound`` when there is no such record.
        """
        row = {
            "id": new_id(),
            "record_id": record_id,
            "kind": kind,
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
            "data": data,
            "created_at": self._clock(),
        }

        def work(session: WriteSession) -> Artifact:
            record = models.record.c.id
            if session.first(sa.select(record).where(record == record_id)) is None:
                raise NotFound("record", record_id)
            session.insert_new(_table, row)
            stored = _load(session, record_id, kind)
            assert stored is not None
            return stored

        return self._database.write(work)


def _load(session: ReadSession, record_id: str, kind: str) -> Artifact | None:
    row = session.first(sa.select(_table).where(_table.c.record_id == record_id, _table.c.kind == kind))
    if row is None:
        return None
    values = {name: row[name] for name in ("id", "record_id", "kind", "sha256", "created_at")}
    return Artifact(data=bytes(row["data"]), **values)
