"""What an operator watches, in sums that the database keeps anyway: no record is counted."""

import datetime as dt
from dataclasses import dataclass

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.engine import ReadSession
from tunesmith.db.states import JobState

__all__ = ["Figures", "read_figures"]

_job, _workload = models.job, models.workload


@dataclass(frozen=True, slots=True)
class Figures:
    """``jobs`` by state. ``queued_since`` is when the oldest job that waits was submitted, ``expired`` how
    many run under a lease that ran out. ``failed`` records are among ``records``."""

    jobs: dict[JobState, int]
    queued_since: dt.datetime | None
    expired: int
    workloads: int
    records: int
    failed: int


def read_figures(session: ReadSession, now: dt.datetime) -> Figures:
    """Goes by indices over jobs and by the counters of workloads."""
    states = sa.select(_job.c.state, sa.func.count().label("n")).group_by(_job.c.state)
    waiting = sa.select(sa.func.min(_job.c.created_at).label("since")).where(
        _job.c.state == JobState.QUEUED.value
    )
    silent = sa.select(sa.func.count().label("n")).where(
        _job.c.state == JobState.RUNNING.value, _job.c.lease_until < now
    )
    sums = sa.select(
        sa.func.count().label("workloads"),
        sa.func.coalesce(sa.func.sum(_workload.c.n_records), 0).label("records"),
        sa.func.coalesce(sa.func.sum(_workload.c.n_failed), 0).label("failed"),
    )
    counts = {row["state"]: row["n"] for row in session.rows(states)}
    (oldest,), (late,), (totals,) = (session.rows(query) for query in (waiting, silent, sums))
    return Figures(
        jobs={state: counts.get(state.value, 0) for state in JobState},
        queued_since=oldest["since"],
        expired=late["n"],
        workloads=totals["workloads"],
        records=int(totals["records"]),
        failed=int(totals["failed"]),
    )
