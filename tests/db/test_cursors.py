"""Cursors while others write: of the rows that were there from beginning to end and kept their place, each
comes exactly once, whatever is added, raced, stopped or tuned between two pages. Any other text is none."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import db_samples as samples
import pytest
from fresh import FreshSchema, needs_postgres
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tunesmith.db import BadCursor, JobSpec, Order, Page, Store, Verb, open_store
from tunesmith.records import Record

INSTANTS = [dt.datetime(2026, 1, 1, second=n, tzinfo=dt.UTC) for n in range(3)]
TIMES_S = [1e-3, 0.1 + 0.2, 2e-3, None]  # few, so that many are equal; None is a failure

fast = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
limits = st.integers(1, 5)
rows = st.tuples(st.sampled_from(TIMES_S), st.sampled_from(INSTANTS))


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One for all examples, which have workloads and owners of their own."""
    if request.param == "sqlite":
        with open_store(f"sqlite:///{tmp_path_factory.mktemp('db')}/test.db") as store:
            yield store
        return
    with FreshSchema() as url, open_store(url) as store:
        yield store


def walk(page: Callable[[str | None], Page[Any]], between: list[Callable[[], None]]) -> list[str]:
    """Ids of all pages; something happens after each but the last of ``between``."""
    seen: list[str] = []
    cursor, happening = None, iter(between)
    while True:
        found = page(cursor)
        seen += [getattr(item, "id", None) or item.hash for item in found.items]
        cursor = found.next_cursor
        if cursor is None:
            return seen
        next(happening, lambda: None)()


@pytest.mark.parametrize("order", list(Order))
@fast
@given(data=st.data(), limit=limits, first=st.lists(rows, min_size=1, max_size=14))
def test_records(store: Store, order: Order, data: st.DataObject, limit: int, first: list[Any]) -> None:
    workload = samples.workload(uuid.uuid4().int)
    known: dict[str, Record] = {}
    moved: set[str] = set()

    def add(time_s: float | None, instant: dt.datetime) -> None:
        record = samples.record(time_s, workload=workload, created_at=instant)
        store.add(record)
        known[record.id] = record

    def race(entrants: list[str], time_s: float) -> None:
        """Gives these another place, and those that were in the race before their own again."""
        store.set_race({key: time_s * (n + 1) for n, key in enumerate(entrants)})
        moved.update(entrants, raced)
        raced[:] = entrants

    def something() -> None:
        working = [key for key, record in known.items() if record.measurement.ok]
        if working and data.draw(st.booleans()):
            race(data.draw(st.lists(st.sampled_from(working), min_size=1, unique=True)), 1e-3)
        else:
            add(*data.draw(rows))

    raced: list[str] = []
    for row in first:
        add(*row)
    working = [key for key, record in known.items() if record.measurement.ok]
    if working and data.draw(st.booleans()):
        race(working[:2], 5e-4)
    moved.clear()
    before = {key for key in known if order is Order.CREATED or known[key].measurement.ok}
    seen = walk(
        lambda cursor: store.summaries(workload=workload.hash, order=order, limit=limit, cursor=cursor),
        [something] * 5,
    )
    stayed = before if order is Order.CREATED else before - moved
    assert {key: seen.count(key) for key in stayed} == dict.fromkeys(stayed, 1)
    if order is Order.CREATED:
        assert len(set(seen)) == len(seen), "what is new is not seen twice either"


@fast
@given(data=st.data(), limit=limits, count=st.integers(1, 8))
def test_jobs(store: Store, data: st.DataObject, limit: int, count: int) -> None:
    owner = uuid.uuid4().hex

    def submit() -> str:
        priority = data.draw(st.integers(-1, 1))
        spec = JobSpec(samples.WORKLOAD, {"operator": "x"}, {}, trials=1, priority=priority)
        return store.jobs.create(spec, owner=owner)[0].id

    def something() -> None:
        if data.draw(st.booleans()):
            store.jobs.ask(data.draw(st.sampled_from(before)), Verb.CANCEL)
        else:
            submit()

    before = [submit() for _ in range(count)]
    seen = walk(lambda cursor: store.jobs.list(owner=owner, limit=limit, cursor=cursor), [something] * 4)
    assert set(before) <= set(seen) and len(set(seen)) == len(seen)


@fast
@given(limit=limits, count=st.integers(1, 8), grows=st.lists(st.booleans(), max_size=4))
def test_workloads(store: Store, limit: int, count: int, grows: list[bool]) -> None:
    structure = uuid.uuid4().hex

    def new() -> Any:
        made = replace(samples.workload(uuid.uuid4().int), structure=structure)
        store.add(samples.record(workload=made))
        return made

    before = [new() for _ in range(count)]
    tune: list[Callable[[], Any]] = [
        new if grown else lambda: store.add(samples.record(1e-6, workload=before[0])) for grown in grows
    ]
    seen = walk(lambda cursor: store.workloads(structure=structure, limit=limit, cursor=cursor), tune)
    assert {workload.hash for workload in before} <= set(seen) and len(set(seen)) == len(seen)


@fast
@given(data=st.data())
def test_tampered(store: Store, data: st.DataObject) -> None:
    """A cursor that was changed somewhere finds a page or is refused, and never fails."""
    structure = uuid.uuid4().hex
    for n in range(2):
        store.add_workload(replace(samples.workload(uuid.uuid4().int + n), structure=structure))
    cursor = store.workloads(structure=structure, limit=1).next_cursor
    assert cursor is not None
    at = data.draw(st.integers(0, len(cursor)))
    until = data.draw(st.integers(at, min(at + 3, len(cursor))))
    tampered = cursor[:at] + data.draw(st.text(max_size=3)) + cursor[until:]
    try:
        store.workloads(structure=structure, limit=1, cursor=tampered)
    except BadCursor:
        return
    for other in (store.jobs.list, store.target_page, store.summaries):
        with pytest.raises(BadCursor):
            other(cursor=tampered)
