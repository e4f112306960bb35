"""Queries walk an index, whatever the number of records. Read from SQLite's own plans."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import db_samples as samples
import pytest
import sqlalchemy as sa

from tunesmith.db import JobSpec, JobState, Order, Store, open_store
from tunesmith.records import Status

HASH, FINGERPRINT = samples.WORKLOAD.hash, samples.TARGET.fingerprint
NEAR = replace(samples.WORKLOAD, hash="d4" * 16, structure="e5" * 16, extents=(64, 32))
OTHER_CPU = samples.target(cpu="icelake-server")


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    with open_store(sqlite_url) as store:
        store.add_all(samples.record() for _ in range(3))
        store.add(samples.record(target=OTHER_CPU))
        yield store


def plan(store: Store, act: Callable[[Store], Any]) -> list[str]:
    """The steps of all queries that ``act`` makes."""
    queries: list[tuple[str, Any]] = []
    engine = store._database.engine

    def note(conn: Any, cursor: Any, sql: str, values: Any, context: Any, many: bool) -> None:
        if sql.lstrip().startswith(("SELECT", "UPDATE")):
            queries.append((sql, values))

    sa.event.listen(engine, "before_cursor_execute", note)
    act(store)
    sa.event.remove(engine, "before_cursor_execute", note)
    assert queries
    with engine.connect() as connection:
        explained = [connection.exec_driver_sql("EXPLAIN QUERY PLAN " + sql, v) for sql, v in queries]
        return [row[-1] for rows in explained for row in rows]


def indices(steps: list[str]) -> set[str]:
    words = [word for step in steps for word in step.split()]
    return {word for word in words if word.startswith("ix_")}


def walks(steps: list[str], *, merges: bool = False) -> bool:
    """No table is read from end to end, and nothing is sorted but the first rows of each part that
    a list ``merges``."""
    known = ("INDEX", "CONSTANT ROW", *(["SCAN anon_"] if merges else []))
    scans = [s for s in steps if s.startswith("SCAN") and not any(word in s for word in known)]
    sorts = [s for s in steps if "TEMP B-TREE" in s]
    return not scans and len(sorts) <= (2 if merges else 0)


@pytest.mark.parametrize("target", [samples.TARGET, FINGERPRINT, samples.target(model="new")])
def test_best(store: Store, target: Any) -> None:
    steps = plan(store, lambda s: s.best(HASH, target))
    assert walks(steps), steps
    assert "ix_record_best" in indices(steps)


def test_best_of_all_targets(store: Store) -> None:
    steps = plan(store, lambda s: s.best(HASH, None))
    assert walks(steps), steps
    assert indices(steps) == {"ix_record_fastest"}


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "ix_record_status"),
        ({"workload": HASH}, "ix_record_workload"),
        ({"workload": HASH, "target": FINGERPRINT}, "ix_record_history"),
        ({"target": FINGERPRINT}, "ix_record_target"),
        ({"status": Status.OK}, "ix_record_status"),
        ({"job": "j"}, "ix_record_job"),
        ({"workload": HASH, "status": Status.OK}, "ix_record_workload"),
        ({"workload": HASH, "target": FINGERPRINT, "status": Status.OK}, "ix_record_history"),
        ({"target": FINGERPRINT, "status": Status.OK}, "ix_record_target"),
        ({"job": "j", "status": Status.OK}, "ix_record_job"),
        ({"job": "j", "order": Order.TIME}, "ix_record_job_best"),
        ({"workload": HASH, "order": Order.TIME}, "ix_record_fastest"),
        ({"workload": HASH, "target": FINGERPRINT, "order": Order.TIME}, "ix_record_best"),
    ],
)
@pytest.mark.parametrize("method", ["records", "summaries"])
def test_lists(store: Store, filters: dict[str, Any], index: str, method: str) -> None:
    cursor = getattr(store, method)(limit=1, **filters).next_cursor
    for start in (None, cursor):
        steps = plan(store, lambda s: getattr(s, method)(limit=1, cursor=start, **filters))  # noqa: B023
        assert walks(steps, merges=not filters.keys() & {"status", "order"}), steps
        assert index in indices(steps)


def test_history(store: Store) -> None:
    """All of them are read, and then sorted."""
    steps = plan(store, lambda s: s.history(HASH, FINGERPRINT))
    assert walks(steps, merges=True), steps
    assert "ix_record_history" in indices(steps)


def test_neighbours(store: Store) -> None:
    store.add(samples.record(workload=NEAR))
    steps = plan(store, lambda s: s.neighbours(replace(NEAR, hash="other"), samples.TARGET))
    assert walks(steps), steps
    assert {"ix_workload_structure", "ix_record_best"} <= indices(steps)


def test_get(store: Store) -> None:
    known = store.records().items[0].id
    steps = plan(store, lambda s: s.get(known))
    assert walks(steps), steps


def test_workloads(store: Store) -> None:
    steps = plan(store, lambda s: s.workloads())
    assert walks(steps), steps
    assert indices(steps) == {"ix_workload_created", "ix_record_fastest"}


def test_jobs(store: Store) -> None:
    steps = plan(store, lambda s: (s.jobs.list(state=JobState.QUEUED), s.jobs.list(), s.jobs.list(owner="a")))
    assert walks(steps), steps
    assert indices(steps) == {"ix_job_state", "ix_job_created", "ix_job_owner"}


def test_claims(store: Store) -> None:
    store.jobs.create(JobSpec(samples.WORKLOAD, {}, {}, 8, measures="warm"))
    steps = plan(store, lambda s: s.jobs.claim_next("a"))
    assert walks(steps), steps
    assert "ix_job_queue" in indices(steps)


def test_events(store: Store) -> None:
    steps = plan(store, lambda s: (s.events.after(7), s.events.after(7, job_id="j"), s.events.last_id()))
    assert walks(steps), steps
    assert "ix_event_job" in indices(steps)


def test_a_race(store: Store) -> None:
    first = store.records(workload=HASH, target=FINGERPRINT).items[0]
    steps = plan(store, lambda s: s.set_race({first.id: 1e-3}))
    assert walks(steps), steps
    assert indices(steps) == {"ix_record_best"}


@pytest.mark.parametrize("names", [("target",), ("workload",), ("target", "workload")])
def test_lists_stay_short_when_the_database_knows_its_sizes(store: Store, names: tuple[str, ...]) -> None:
    """With statistics, SQLite would rather read all records of a target than a hundred by their ids."""
    store.add_all(samples.record() for _ in range(600))
    with store._database.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE")
    store.close()  # connections read statistics when they are opened
    filters = {"target": FINGERPRINT, "workload": HASH}
    steps = plan(store, lambda s: s.summaries(limit=100, **{name: filters[name] for name in names}))
    assert walks(steps, merges=True), steps
    whole = [s for s in steps if "ix_record" in s and "status=?" not in s]
    assert not whole, whole
