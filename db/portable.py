"""Records as lines of JSON, from which any database can take them over.

    {"tunesmith": 1}                             the format, first
    {"workload": {"hash": …, "program": …}}      once, before its first record
    {"target": {"fingerprint": …, "cpu": …}}     likewise
    {"record": {"id": …, "workload": hash, "target": fingerprint, "schedule": …, "race_s": …}}

Every line is an object with one member. ``race_s`` is that of the latest race of the record's workload,
target and state of the caches; absent for those that were not in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import RECORD_COLUMNS, document, target_from_row, time_text, workload_from_row
from tunesmith.db.engine import Database, ReadSession, Row

__all__ = ["FORMAT", "export_lines"]

FORMAT = 1
_AT_ONCE = 500
_PLAIN = ("id", "status", "error", "trial", "seed", "schedule_hash")
_DOCUMENTS = ("schedule", "measurement", "protocol", "versions", "variant")
_record = models.record


def export_lines(database: Database, filters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The lines of all records whose columns have these values, oldest id first; a page at a time, so that
    neither memory nor other users notice. What is added meanwhile may or may not be among them."""
    yield {"tunesmith": FORMAT}
    told: set[str] = set()
    last = ""
    while True:
        rows, shared = database.read(lambda session, last=last: _page(session, filters, last))  # type: ignore[misc]
        for row in rows:
            for kind in ("workload", "target"):
                key = row[f"{kind}_id"]
                if key not in told:
                    told.add(key)
                    yield {kind: shared[key]}
            yield {"record": _line(row)}
        if len(rows) < _AT_ONCE:
            return
        last = rows[-1]["id"]


def _page(
    session: ReadSession, filters: Mapping[str, str], last: str
) -> tuple[list[Row], dict[str, dict[str, Any]]]:
    columns = [_record.c[name] for name in RECORD_COLUMNS]
    wanted = [_record.c[name] == value for name, value in filters.items()]
    query = sa.select(*columns).where(_record.c.id > last, *wanted).order_by(_record.c.id).limit(_AT_ONCE)
    rows = list(session.rows(query))
    shared: dict[str, dict[str, Any]] = {}
    for table, make in ((models.workload, _workload), (models.target, _target)):
        keys = {row[f"{table.name}_id"] for row in rows}
        for found in session.rows(sa.select(table).where(table.c.id.in_(keys))):
            shared[found["id"]] = make(found)
    return rows, shared


def _workload(row: Row) -> dict[str, Any]:
    workload = workload_from_row(row)
    return {"hash": workload.hash, "name": workload.name, "program": workload.program}


def _target(row: Row) -> dict[str, Any]:
    target = target_from_row(row)
    return {"fingerprint": target.fingerprint, **target.to_json()}


def _line(row: Row) -> dict[str, Any]:
    line: dict[str, Any] = {"workload": row["workload_id"], "target": row["target_id"]}
    line |= {name: row[name] for name in _PLAIN}
    line |= {name: document(row[name]) for name in _DOCUMENTS}
    line["created_at"] = time_text(row["created_at"])
    if not row["unraced"]:
        line["race_s"] = row["race_s"]
    return {name: value for name, value in line.items() if value is not None}
