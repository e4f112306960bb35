"""Pages: every row exactly once, whatever is added meanwhile."""

import base64
import json
import random

import db_samples as samples
import pytest

from tunesmith.db import BadCursor, Order, Store
from tunesmith.records import Status

HASH = samples.WORKLOAD.hash


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("limit", [1, 3, 10, 11])
def test_pages_add_up_while_others_write(store: Store, order: Order, limit: int) -> None:
    instant = samples.record().created_at  # all at one instant, many with one time: ids decide
    draw = random.Random(limit)
    before = [samples.record(draw.choice([1e-3, 2e-3]), created_at=instant) for _ in range(10)]
    store.add_all(before)
    seen: list[str] = []
    cursor = None
    more = 5  # with one row a page, adding ahead of the cursor for ever would never end
    while True:
        page = store.records(workload=HASH, order=order, limit=limit, cursor=cursor)
        seen += [r.id for r in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.items) == limit
        if more:
            more -= 1
            store.add(samples.record(1.5e-3))
    assert len(set(seen)) == len(seen)
    assert {r.id for r in before} <= set(seen)


def test_no_cursor_at_the_end(store: Store) -> None:
    store.add_all([samples.record() for _ in range(4)])
    page = store.summaries(limit=2)
    assert page.next_cursor is not None
    assert store.summaries(limit=2, cursor=page.next_cursor).next_cursor is None
    assert store.summaries(limit=4).next_cursor is None


def test_a_cursor_belongs_to_its_query(store: Store) -> None:
    store.add_all([samples.record() for _ in range(3)])
    cursor = store.records(workload=HASH, limit=1).next_cursor
    assert store.records(workload=HASH, limit=2, cursor=cursor).items, "the limit may change"
    for other in (
        {},
        {"workload": "x"},
        {"workload": HASH, "status": Status.OK},
        {"workload": HASH, "order": Order.TIME},
    ):
        with pytest.raises(BadCursor, match="other filters"):
            store.records(cursor=cursor, **other)  # type: ignore[arg-type]
    with pytest.raises(BadCursor, match="other filters"):
        store.workloads(cursor=cursor)
    with pytest.raises(BadCursor, match="other filters"):
        store.jobs.list(cursor=cursor)


def test_damaged_cursors(store: Store) -> None:
    store.add_all([samples.record() for _ in range(3)])
    cursor = store.records(limit=1).next_cursor
    assert cursor is not None
    digest, *key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))

    def forged(*values: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")

    broken = ["", "x", "é", cursor[:-3], "[" * 4000, forged(digest), forged(digest, *key, 1)]
    broken += [
        forged(digest, 1, "x"),
        forged(digest, "yesterday", "x"),
        forged(digest, "2026-01-01", "x"),
        forged(1),
    ]
    for text in broken:
        with pytest.raises(BadCursor):
            store.records(cursor=text)
