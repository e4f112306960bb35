"""Records out of one database and into another: all of them, as they were, and no lie."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunesmith.costmodel import Ranker
from tunesmith.db import Store, open_store
from tunesmith.frontend import operator
from tunesmith.ir import TunesmithError, canonical
from tunesmith.records import Measurement, Peaks, Protocol, Record, Status, Target, new_id, utc_now
from tunesmith.search import derive
from tunesmith.tuning.imports import import_lines
from tunesmith.tuning.samples import sample_schedules
from tunesmith.tuning.workload import workload_of

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
TARGET = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)


def records_of(text: str, n: int) -> list[Record]:
    program = operator(text)
    workload, form = workload_of(program)
    space = derive(canonical(program), TARGET)
    drawn = sample_schedules(space, Ranker(form, space.sketches, TARGET), n, np.random.default_rng(0))
    out = []
    for i, schedule in enumerate(drawn):
        measured = Measurement(Status.OK, (1e-3 * (i + 1), 1.1e-3 * (i + 1)), max_error=1e-7, tolerance=1e-5)
        if i % 4 == 3:
            measured = Measurement(Status.WRONG_ANSWER, error="off", max_error=float("inf"), tolerance=1e-5)
        peaks = replace(PEAKS, dram_gbs=19.0) if i % 5 == 2 else PEAKS
        out.append(
            Record(
                new_id(), workload, replace(TARGET, peaks=peaks), schedule.to_json(), schedule.hash, measured,
                Protocol(), i, 7, utc_now(), {"tunesmith": "0", "llvm": "22"},
            )
        )  # fmt: skip
    return out


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "source.db") as store:
        matmul, softmax = records_of("matmul(24,16,20)", 9), records_of("softmax(12,40)", 6)
        store.add_all([*matmul, *softmax])
        store.set_race({matmul[0].id: 2e-3, matmul[1].id: 1.5e-3})
        yield store


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "other.db") as store:
        yield store


def lines_of(store: Store, **filters: Any) -> list[bytes]:
    return [json.dumps(line).encode() for line in store.export(**filters)]


@pytest.mark.parametrize("trusted", [False, True])
def test_all_of_it_comes_back(source: Store, empty: Store, trusted: bool) -> None:
    lines = lines_of(source)
    result = import_lines(empty, lines, trusted=trusted)
    assert (result.new, result.known, dict(result.refused)) == (15, 0, {})
    assert lines_of(empty) == lines
    before, after = source.workloads().items, empty.workloads().items
    assert {w.hash: (w.n_records, w.n_failed, w.best_record_id, w.best_s) for w in before} == {
        w.hash: (w.n_records, w.n_failed, w.best_record_id, w.best_s) for w in after
    }
    for summary in source.summaries(limit=100).items:
        if trusted:
            assert empty.get(summary.id) == source.get(summary.id)
    again = import_lines(empty, lines, trusted=trusted)
    assert (again.new, again.known) == (0, 15)
    assert lines_of(empty) == lines


def test_an_interrupted_import_is_repeated(source: Store, empty: Store) -> None:
    lines = lines_of(source)

    def torn() -> Iterator[bytes]:
        yield from lines[:8]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_lines(empty, torn())
    import_lines(empty, lines)
    assert lines_of(empty) == lines


def test_filters(source: Store) -> None:
    workload = next(w for w in source.workloads().items if w.name == "softmax")
    kinds = [next(iter(json.loads(line))) for line in lines_of(source, workload=workload.hash)]
    assert kinds == ["tunesmith", "workload", "target", *["record"] * 6]
    failed = lines_of(source, status=Status.WRONG_ANSWER)
    assert sum(b'{"record"' in line for line in failed) == 3


def test_a_race_that_stands_is_not_mixed_with_another(source: Store, empty: Store) -> None:
    own = records_of("matmul(24,16,20)", 2)
    empty.add_all(own)
    empty.set_race({own[0].id: 9e-3})
    import_lines(empty, lines_of(source))
    best = empty.best(own[0].workload.hash, TARGET)
    assert best is not None and (best.record.id, best.time_s, best.raced) == (own[0].id, 9e-3, True)


LIES: dict[str, tuple[str, Any]] = {
    "another schedule": ("schedule_hash", "0" * 32),
    "faster than light": ("measurement", {"times_s": [1e-12], "signal": 0}),
    "no times": ("measurement", {}),
    "no such workload": ("workload", "f" * 32),
    "no id": ("id", None),
    "a trial in words": ("trial", "three"),
    "a seed too large": ("seed", 1 << 70),
    "a version that is none": ("versions", {"llvm": 22}),
    "a protocol of nobody": ("protocol", {"cache": "hot"}),
    "a race won by magic": ("race_s", -1.0),
    "an error that is none": ("error", ["x"]),
    "a schedule that is none": ("schedule", None),
    "a later day": ("created_at", "2999-01-01T00:00:00.000000Z"),
    "a schedule of nothing": ("schedule", {"steps": 3}),
    "a status of nobody": ("status", "excellent"),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_counted_and_the_rest_is_taken(source: Store, empty: Store, name: str) -> None:
    lines = [json.loads(line) for line in lines_of(source)]
    liar = next(line["record"] for line in lines if line.get("record", {}).get("status") == "ok")
    member, value = LIES[name]
    liar[member] = value
    result = import_lines(empty, [json.dumps(line).encode() for line in lines])
    assert (result.new, sum(result.refused.values())) == (14, 1)


BROKEN = [b"{", b"[]", b"{}", b"null", b'{"record": 1}', b'{"a": 1}', b"\xff", b"[" * 99999]


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
def test_malformed_lines_are_counted(source: Store, empty: Store, line: bytes) -> None:
    result = import_lines(empty, [*lines_of(source), line])
    assert (result.new, dict(result.refused)) == (15, {"malformed": 1})


@pytest.mark.parametrize("first", [[], [b"{}"], [b'{"tunesmith": 99}'], [b"not json"]])
def test_other_files_are_refused(empty: Store, first: list[bytes]) -> None:
    with pytest.raises(TunesmithError):
        import_lines(empty, first)


def test_programs_are_not_believed(source: Store, empty: Store) -> None:
    lines = [json.loads(line) for line in lines_of(source)]
    for line in lines:
        if "workload" in line:
            line["workload"]["hash"] = "0" * 32
        if "target" in line:
            line["target"]["cores"] += 1
    result = import_lines(empty, [json.dumps(line).encode() for line in lines])
    assert result.new == 0 and result.refused.total() == len(lines) - 1
