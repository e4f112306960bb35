"""Targets and workloads: rows shared by many records."""

import datetime as dt
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.codec import parse_time, plain_text, target_from_row, target_row, workload_row
from tunesmith.db.engine import ReadSession, Row, WriteSession
from tunesmith.db.errors import NotFound
from tunesmith.db.lookup import Shared
from tunesmith.db.pages import Keyset
from tunesmith.db.values import Page, WorkloadSummary
from tunesmith.records import Target, Workload

__all__ = [
    "add_target",
    "add_workload",
    "list_targets",
    "list_workloads",
    "page_of_targets",
    "shared_rows",
    "workload_summary",
]

_table = models.workload


def add_workload(session: WriteSession, workload: Workload, now: dt.datetime) -> None:
    session.insert_new(_table, {**workload_row(workload), "created_at": now})


def add_target(session: WriteSession, target: Target, now: dt.datetime) -> None:
    session.insert_new(models.target, {**target_row(target), "created_at": now})


def shared_rows(
    session: WriteSession, workload: Workload, target: Target, now: dt.datetime
) -> tuple[Workload, Target]:
    """The rows that records of this workload and target share, as stored: the first ones stay."""
    add_workload(session, workload, now)
    add_target(session, target, now)
    shared = Shared(session.fetch)
    rows = shared.workload(workload.hash), shared.target(target.fingerprint)
    assert rows[0] is not None and rows[1] is not None
    return rows[0], rows[1]


def list_targets(session: ReadSession) -> list[Target]:
    """All targets ever measured on, oldest first; even a fleet has only hundreds."""
    table = models.target
    query = sa.select(table).order_by(table.c.created_at, table.c.id)
    return [target_from_row(row) for row in session.rows(query)]


def page_of_targets(session: ReadSession, limit: int, cursor: str | None) -> Page[Target]:
    """Newest first."""
    table = models.target
    key = [table.c.created_at, table.c.id]
    keyset = Keyset({"of": "target"}, key, [dt.datetime, str], descending=True)
    rows, following = keyset.page(session, sa.select(table), limit, cursor)
    return Page(tuple(target_from_row(row) for row in rows), following)


def workload_summary(session: ReadSession, workload_hash: str) -> WorkloadSummary:
    """Raises ``NotFound``."""
    row = session.first(_summaries().where(_table.c.id == plain_text(workload_hash)))
    if row is None:
        raise NotFound("workload", workload_hash)
    return _summary(row)


def list_workloads(
    session: ReadSession, structure: str | None, limit: int, cursor: str | None
) -> Page[WorkloadSummary]:
    """Newest first."""
    query = _summaries().where(*([] if structure is None else [_table.c.structure == plain_text(structure)]))
    keyset = Keyset(
        {"of": "workload", "structure": structure},
        [_table.c.created_at, _table.c.id],
        [dt.datetime, str],
        descending=True,
    )
    rows, following = keyset.page(session, query, limit, cursor)
    return Page(tuple(_summary(row) for row in rows), following)


def _summaries() -> sa.Select[Any]:
    """The served record of each is one index lookup, its counts are kept up to date."""
    served = models.record.alias("served")
    return (
        sa.select(
            *(c for c in _table.c if c.name not in ("program", "extents", "log_size")),
            served.c.id.label("best_record_id"),
            served.c.rank_s.label("best_s"),
            served.c.gflops.label("best_gflops"),
        )
        .select_from(_table.outerjoin(served, served.c.id == _fastest_id()))
    )


def _fastest_id() -> Any:
    record = models.record
    return (
        sa.select(record.c.id)
        .where(
            record.c.workload_id == _table.c.id, record.c.cache == "warm", record.c.rank_s.is_not(None)
        )
        .order_by(record.c.unraced, record.c.rank_s, record.c.id)
        .limit(1)
        .scalar_subquery()
    )


def _summary(row: Row) -> WorkloadSummary:
    shown = {k: row[k] for k in row if k not in ("id", "created_at")}
    return WorkloadSummary(hash=row["id"], created_at=parse_time(row["created_at"]), **shown)
