"""Records of trials: which of them are served, and reading them back."""

import datetime as dt
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.additions import check_fence, locked_jobs
from tunesmith.db.codec import RECORD_COLUMNS, parse_time, plain_text, served_gflops
from tunesmith.db.engine import ReadSession, Row, WriteSession
from tunesmith.db.errors import Ambiguous, BadQuery, NotFound
from tunesmith.db.lookup import Shared
from tunesmith.db.pages import Keyset
from tunesmith.db.values import Fence, Order, Page, RecordSummary
from tunesmith.records import Record, Status

__all__ = [
    "RecordFilter",
    "find_record",
    "history",
    "known_records",
    "list_records",
    "list_summaries",
    "set_race",
]

_MIN_PREFIX = 8
_table = models.record
_columns = [_table.c[name] for name in RECORD_COLUMNS]


def set_race(
    session: WriteSession, times_s: Mapping[str, float], job_id: str | None, fence: Fence | None = None
) -> None:
    """Makes ``times_s`` (record id → seconds) the latest race of its workload and target.

    Entrants of earlier races that are not in this one fall back to the time of their trial: times of
    different races do not compare. The winner becomes the best of the job's task, and of a job with one.
    """
    if job_id is not None:
        check_fence(locked_jobs(session, [job_id])[job_id], fence)
    entrants = [_entrant(session, record_id, time_s) for record_id, time_s in sorted(times_s.items())]
    kinds = {(row["workload_id"], row["target_id"], row["cache"]) for row in entrants}
    if len(kinds) != 1:
        raise BadQuery("a race is between records of one workload, one target and one state of the caches")
    workload_id, target_id, cache = kinds.pop()
    flops = _flops(session, workload_id)
    raced = (
        _table.c.workload_id == workload_id,
        _table.c.target_id == target_id,
        _table.c.cache == cache,
        _table.c.rank_s.is_not(None),
    )
    session.run(
        sa.update(_table)
        .where(*raced, _table.c.unraced == sa.false())
        .values(unraced=True, rank_s=_table.c.time_s, gflops=flops / _table.c.time_s / 1e9)
    )
    for row in entrants:
        time_s = times_s[row["id"]]
        values = {
            "race_s": time_s,
            "rank_s": time_s,
            "gflops": served_gflops(flops, time_s),
            "unraced": False,
        }
        session.run(sa.update(_table).where(_table.c.id == row["id"]).values(**values))
    if job_id is not None:
        winner = min(times_s, key=lambda record_id: (times_s[record_id], record_id))
        _crown(session, job_id, workload_id, winner, times_s[winner], flops)


def _entrant(session: WriteSession, record_id: str, time_s: float) -> Row:
    if not 0 < time_s < math.inf:
        raise ValueError(f"{time_s} s is not the time of a race")
    row = session.first(
        sa.select(
            _table.c.id, _table.c.workload_id, _table.c.target_id, _table.c.cache, _table.c.rank_s
        ).where(_table.c.id == record_id)
    )
    if row is None:
        raise NotFound("record", record_id)
    if row["rank_s"] is None:
        raise BadQuery(f"record {record_id} is of a failed trial or an observation: it cannot race")
    return row


def _crown(
    session: WriteSession, job_id: str, workload_id: str, record_id: str, time_s: float, flops: int
) -> None:
    job, task = models.job, models.task
    best = {"best_record_id": record_id, "best_s": time_s, "best_gflops": served_gflops(flops, time_s)}
    mine = (task.c.job_id == job_id, task.c.workload_id == workload_id)
    session.run(sa.update(task).where(*mine).values(**best))
    alone = (job.c.id == job_id, job.c.kind == "tune")
    session.run(sa.update(job).where(*alone).values(version=job.c.version + 1, **best))


def _flops(session: ReadSession, workload_id: str) -> int:
    row = session.first(sa.select(models.workload.c.flops).where(models.workload.c.id == workload_id))
    assert row is not None, "foreign keys hold"
    return int(row["flops"])


def find_record(session: ReadSession, key: str) -> Record:
    """By id, or by the unique beginning of one, of at least eight characters."""
    key = plain_text(key.strip().lower())
    if len(key) < _MIN_PREFIX:
        raise NotFound("record", key, f"an abbreviated id needs {_MIN_PREFIX} characters or more")
    query = sa.select(*_columns).where(_table.c.id >= key, _table.c.id < key + "~").order_by(_table.c.id)
    rows = session.rows(query.limit(4))
    if not rows:
        raise NotFound("record", key)
    if len(rows) > 1 and rows[0]["id"] != key:
        raise Ambiguous("record", key, tuple(row["id"] for row in rows))
    return Shared(session.fetch).record(rows[0])


def known_records(session: ReadSession, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Workload and schedule hash of those ids that are taken; for a batch of some hundreds."""
    query = sa.select(_table.c.id, _table.c.workload_id, _table.c.schedule_hash).where(_table.c.id.in_(ids))
    return {row["id"]: (row["workload_id"], row["schedule_hash"]) for row in session.rows(query)}


def history(session: ReadSession, workload_hash: str, fingerprint: str) -> list[Record]:
    """All trials of a workload on a target, oldest first."""
    query = (
        sa.select(*_columns)
        .where(_table.c.workload_id == workload_hash, _table.c.target_id == fingerprint)
        .order_by(_table.c.created_at, _table.c.id)
    )
    return list(_records(session, session.rows(query)))


def _records(session: ReadSession, rows: Sequence[Row]) -> Iterator[Record]:
    shared = Shared(session.fetch)
    return (shared.record(row) for row in rows)


class RecordFilter:
    """The filters that lists of records share, and their order."""

    def __init__(
        self,
        *,
        workload: str | None = None,
        target: str | None = None,
        status: Status | None = None,
        job: str | None = None,
        order: Order = Order.CREATED,
        cache: str = "warm",
    ) -> None:
        if order is Order.TIME and workload is None and job is None:
            raise BadQuery(
                "order by time needs a workload or a job: times of different workloads do not compare"
            )
        given = {"workload_id": workload, "target_id": target, "status": status, "job_id": job}
        if order is Order.TIME:
            given["cache"] = cache
        self.values = {name: plain_text(value) for name, value in given.items() if value is not None}
        self.order = order

    def page(
        self, session: ReadSession, query: sa.Select[Any], limit: int, cursor: str | None
    ) -> tuple[Sequence[Row], str | None]:
        """The rows of ``query`` that are meant; the indices by creation have the status before it."""
        meant = [_table.c[name] == value for name, value in self.values.items()]
        bound = {"of": "record", "order": self.order.value, **self.values}
        if self.order is Order.TIME:
            key = {"unraced": bool, "rank_s": float, "id": str}
            keyset = Keyset(bound, [_table.c[name] for name in key], list(key.values()), descending=False)
            return keyset.page(session, query.where(*meant, _table.c.rank_s.is_not(None)), limit, cursor)
        keyset = Keyset(bound, [_table.c.created_at, _table.c.id], [dt.datetime, str], descending=True)
        if "status" in self.values:
            return keyset.page(session, query.where(*meant), limit, cursor)
        # Said of the parts alone: said again of the rows that these choose, it leads planners astray.
        parts = [sa.and_(*meant, _table.c.status == status.value) for status in Status]
        return keyset.page(session, query, limit, cursor, parts)


def list_records(session: ReadSession, chosen: RecordFilter, limit: int, cursor: str | None) -> Page[Record]:
    rows, following = chosen.page(session, sa.select(*_columns), limit, cursor)
    return Page(tuple(_records(session, rows)), following)


_SUMMARY = (
    "id", "workload_id", "target_id", "job_id", "status", "trial", "time_s", "race_s", "gflops",
    "schedule_hash", "created_at", "unraced", "rank_s",
)  # fmt: skip
_ERROR_CHARS = 300


def list_summaries(
    session: ReadSession, chosen: RecordFilter, limit: int, cursor: str | None
) -> Page[RecordSummary]:
    columns = [_table.c[name] for name in _SUMMARY]
    error = sa.func.substr(_table.c.error, 1, _ERROR_CHARS).label("error")
    query = (
        sa.select(*columns, error, models.workload.c.name.label("workload_name"))
        .join_from(_table, models.workload, models.workload.c.id == _table.c.workload_id)
    )
    rows, following = chosen.page(session, query, limit, cursor)
    return Page(tuple(_summary(row) for row in rows), following)


def _summary(row: Row) -> RecordSummary:
    return RecordSummary(
        id=row["id"],
        workload_hash=row["workload_id"],
        workload_name=row["workload_name"],
        target_fingerprint=row["target_id"],
        job_id=row["job_id"],
        status=Status(row["status"]),
        trial=row["trial"],
        time_s=row["time_s"],
        race_s=row["race_s"],
        gflops=row["gflops"],
        schedule_hash=row["schedule_hash"],
        error=row["error"],
        created_at=parse_time(row["created_at"]),
    )
