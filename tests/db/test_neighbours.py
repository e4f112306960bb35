"""Neighbours: who they are, in which order, and that older databases know them too."""

from collections.abc import Sequence
from dataclasses import replace

import db_samples as samples
import pytest
from old_databases import old_database

from tunesmith.db import Match, Store, open_store
from tunesmith.db.codec import workload_row
from tunesmith.frontend import operator
from tunesmith.ir import canonical, extents, program_to_json, structure_hash, workload_hash
from tunesmith.records import Record, Workload, log_distance, utc_now

SAME_ARCH = samples.target(cpu="haswell", vector_bytes=32)
OTHER_ARCH = samples.target(triple="aarch64-unknown-linux-gnu")


def shape(*sizes: int, **changes: str) -> Workload:
    name = "×".join(map(str, sizes))
    made = replace(samples.WORKLOAD, hash=name.encode().hex().ljust(32, "0"), name=name, extents=sizes)
    return replace(made, **changes)  # type: ignore[arg-type]


def add(store: Store, *sizes: int, time_s: float | None = 1e-3, **changes: object) -> Record:
    record = samples.record(time_s, workload=shape(*sizes), **changes)
    store.add(record)
    return record


def names(store: Store, sizes: Sequence[int], limit: int = 8) -> list[str]:
    return [n.best.record.workload.name for n in store.neighbours(shape(*sizes), samples.TARGET, limit)]


def test_distance_is_in_doublings() -> None:
    assert log_distance((8, 8), (8, 8)) == 0
    assert log_distance((8, 8), (16, 4)) == log_distance((16, 4), (8, 8)) == 1
    assert log_distance((), ()) == 0


def test_the_nearest_come_first(store: Store) -> None:
    """Sizes of equal volume may be far apart; sizes above and below count alike."""
    for sizes in ((64, 64), (128, 32), (64, 80), (56, 64), (1024, 1024), (4, 4)):
        add(store, *sizes)
    assert names(store, (64, 66)) == ["64×64", "56×64", "64×80", "128×32", "1024×1024", "4×4"]
    assert names(store, (64, 66), limit=2) == ["64×64", "56×64"]


def test_the_same_target_comes_before_nearer_shapes_of_others(store: Store) -> None:
    add(store, 64, 64, target=SAME_ARCH)
    add(store, 32, 32)
    add(store, 63, 63, target=OTHER_ARCH)
    found = store.neighbours(shape(64, 65), samples.TARGET)
    assert [n.best.record.workload.name for n in found] == ["32×32", "64×64"]
    assert [n.best.match for n in found] == [Match.EXACT, Match.SAME_ARCH]
    assert found[1].distance < found[0].distance


def test_each_gives_its_best(store: Store) -> None:
    add(store, 32, 32, time_s=2e-3)
    fast = add(store, 32, 32, time_s=1e-3)
    (found,) = store.neighbours(shape(64, 64), samples.TARGET)
    assert (found.best.record, found.distance) == (fast, 1.0)


def test_own_records_are_history_but_other_targets_are_neighbours(store: Store) -> None:
    add(store, 64, 64, target=SAME_ARCH)
    assert names(store, (64, 64)) == ["64×64"]
    add(store, 64, 64)
    assert names(store, (64, 64)) == []


def test_failures_other_structures_and_unknown_extents_are_no_neighbours(store: Store) -> None:
    add(store, 32, 32, time_s=None)
    store.add(samples.record(workload=shape(48, 48, structure="c3" * 16)))
    store.add(samples.record(workload=shape(16, 16, 16)))
    store.add(samples.record(workload=samples.WORKLOAD))
    assert names(store, (64, 64)) == []
    assert store.neighbours(samples.WORKLOAD, samples.TARGET) == []


def test_a_bounded_number_of_rows_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunesmith.db.nearby._BELOW", _limited("<", "DESC"))
    monkeypatch.setattr("tunesmith.db.nearby._ABOVE", _limited(">=", "ASC"))
    for n in range(1, 21):
        add(store, 10 * n, 10 * n)
    assert names(store, (100, 101)) == ["100×100", "110×110", "90×90", "120×120"]


def _limited(side: str, order: str) -> str:
    return (
        "SELECT id, extents, n_records - n_failed AS working FROM workload WHERE structure = :structure"
        f" AND log_size {side} :size ORDER BY log_size {order}, id {order} LIMIT 2"
    )


PROGRAMS = {text: operator(text) for text in ("matmul(64,48,32)", "matmul(64,48,16)", "matmul(8,9,10)")}
STRUCTURE = structure_hash(PROGRAMS["matmul(8,9,10)"])


def test_older_databases_learn_the_extents_of_their_workloads(url: str) -> None:
    known = {workload_hash(p): p for p in PROGRAMS.values()}
    documents = {key: program_to_json(p) for key, p in known.items()} | {"unreadable": {"version": 99}}
    rows = [
        {**workload_row(replace(samples.WORKLOAD, hash=key, structure=STRUCTURE, program=document)),
         "created_at": utc_now()}
        for key, document in documents.items()
    ]  # fmt: skip
    old_database(url, "0001", {"workload": rows})
    with open_store(url) as store:
        for key, program in known.items():
            workload = store.workload(key)
            assert workload is not None and workload.extents == extents(canonical(program))
            store.add(samples.record(workload=workload))
        unreadable = store.workload("unreadable")
        assert unreadable is not None and unreadable.extents == ()
        wanted = replace(samples.WORKLOAD, structure=STRUCTURE, extents=(64, 48, 30))
        found = store.neighbours(wanted, samples.TARGET)
        assert [n.best.record.workload.extents for n in found] == [(64, 48, 32), (64, 48, 16), (8, 9, 10)]
        assert len(store.workloads(structure=STRUCTURE).items) == 4


def test_workloads_come_back_with_their_extents(store: Store) -> None:
    record = add(store, 3, 4, 5)
    assert store.get(record.id) == record
    assert store.workload(record.workload.hash) == record.workload
