"""Logs of Ansor and MetaSchedule: what maps is an observation, what does not is counted with its reason.

The files under logs/ were written for these tests, in the forms that TVM writes.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))  # for db_samples

import db_samples as samples

from tunesmith.db import Match, Store, open_store
from tunesmith.frontend import operator
from tunesmith.records import Record
from tunesmith.schedule import Schedule, lower
from tunesmith.search import derive
from tunesmith.service.transfer import Imported, Importer
from tunesmith.tuning import load_dataset, workload_of
from tunesmith.tuning.neighbours import seeds
from tunesmith.tuning.observations import Unmapped, record_of
from tunesmith.tuning.tvm_logs import format_of, observation

LOGS = Path(__file__).parent / "logs"
ANSOR = (LOGS / "ansor.json").read_bytes().splitlines()
METASCHEDULE = (LOGS / "metaschedule" / "database_tuning_record.json").read_bytes().splitlines()
PRODUCT = "matmul(256, 256, 256)"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "test.db") as store:
        yield store


def imported(store: Store, lines: list[bytes], source: str | None = None) -> Imported:
    importer = Importer(store, source)
    for _ in importer.take(lines):
        pass
    return importer.done


def tiles(record: Record) -> dict[str, int]:
    """The knobs of the schedule in its space."""
    _, form = workload_of(operator(PRODUCT))
    space = derive(form, record.target)
    candidate = space.locate(Schedule.from_json(record.schedule))
    assert candidate is not None
    sketch = space.sketches[candidate.sketch]
    return {k.name[3:]: k.values[i] for k, i in zip(sketch.knobs, candidate.row, strict=True)}


def test_ansor(store: Store) -> None:
    done = imported(store, ANSOR)
    assert not done.refused
    assert (done.new, done.observations, done.nearest) == (5, 5, 2)
    assert done.unmapped == {
        "failed there": 1,
        "not of a CPU": 1,
        "with more stages than the product, or its reduction in parts": 1,
        "the task is a hash, which tells no program": 1,
        "the task's function 'conv2d_layer' is none that is known": 1,
        "splits that do not fit the task's shape": 1,
    }


def test_metaschedule(store: Store) -> None:
    done = imported(store, METASCHEDULE)
    assert not done.refused and (done.new, done.observations, done.nearest) == (3, 3, 1)
    assert done.unmapped == {
        "failed there": 2,
        "its blocks are not those of a product alone": 1,
        "tiled in other levels than SSRSRS": 1,
        "not of a CPU": 1,
        "its arguments are not three matrices": 1,
    }
    names = [summary.name for summary in store.workloads().items]
    assert sorted(names) == ["dense", "matmul"]
    workloads = (LOGS / "metaschedule" / "database_workload.json").read_bytes().splitlines()
    assert imported(store, workloads).unmapped == {"a workload, which is no measurement": 1}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (ANSOR[1], {"i0.reg": 4, "i0.mid": 8, "lanes": 16, "vectors": 2, "i1.mid": 4}),
        (ANSOR[2], {"i0.reg": 8, "i0.mid": 2, "lanes": 16, "vectors": 1, "i1.mid": 2}),
        (METASCHEDULE[0], {"i0.reg": 8, "i0.mid": 8, "lanes": 16, "vectors": 2, "i1.mid": 4}),
    ],
)
def test_tiles_are_those_of_the_log(line: bytes, wanted: dict[str, int]) -> None:
    record = record_of(observation(json.loads(line)))
    assert record.versions["mapped"] == "exact" and wanted.items() <= tiles(record).items()


def test_an_observation(store: Store) -> None:
    imported(store, ANSOR)
    record = record_of(observation(json.loads(ANSOR[1])))
    assert store.get(record.id) == record and record.is_observation
    assert record.measurement.times_s == (0.00031, 0.00032) and record.created_at.year == 2022
    assert (record.target.cpu, record.target.cores, record.target.vector_bytes) == ("skylake-avx512", 1, 64)
    assert record.target.model.startswith("imported: llvm -keys=cpu -mcpu=skylake-avx512")
    assert record.workload == workload_of(operator(PRODUCT))[0]
    _, form = workload_of(operator(PRODUCT))
    lower(form, Schedule.from_json(record.schedule))


def test_importing_twice_changes_nothing(store: Store) -> None:
    assert imported(store, ANSOR).new == 5
    again = imported(store, ANSOR)
    assert (again.new, again.known) == (0, 5)


def test_they_are_never_served(store: Store) -> None:
    imported(store, [*ANSOR, *METASCHEDULE])
    for summary in store.workloads().items:
        assert summary.best_record_id is None and summary.n_records > 0
        for fingerprint in (None, *(t.fingerprint for t in store.targets()), samples.TARGET):
            assert store.best(summary.hash, fingerprint) is None
    product = workload_of(operator(PRODUCT))[0]
    assert not store.neighbours(product, samples.TARGET), "nor do estimates rest on them"


def test_a_search_begins_from_them(store: Store) -> None:
    imported(store, ANSOR)
    workload, form = workload_of(operator("matmul(192, 256, 320)"))
    space = derive(form, samples.TARGET)
    warm = seeds(store, workload, space, samples.TARGET, 0, observed=True)
    assert warm.candidates and not seeds(store, workload, space, samples.TARGET, 0).candidates
    assert "imported: llvm" in " ".join(warm.notes)
    same, form = workload_of(operator(PRODUCT))
    space = derive(form, samples.TARGET)
    first = seeds(store, same, space, samples.TARGET, 0, observed=True).found[0]
    assert first.neighbour.distance == 0 and first.neighbour.best.match is Match.SAME_ARCH
    knobs = space.sketches[first.candidate.sketch].knobs
    values = {k.name: k.values[i] for k, i in zip(knobs, first.candidate.row, strict=True)}
    assert (values["t0.i0.reg"], values["t0.i0.mid"]) == (4, 8), "the fastest of the log"


def test_models_learn_from_exact_ones(store: Store) -> None:
    lines = []
    for rows in (1, 2, 4, 8):
        line = json.loads(ANSOR[1])
        line["i"][1][1][0][4] = [2, 1, rows]
        line["r"][0] = [0.001 / rows]
        lines.append(json.dumps(line).encode())
    nearest = ANSOR[3]
    done = imported(store, [*lines, nearest])
    assert (done.new, done.nearest) == (5, 1)
    data = load_dataset(store)
    assert data.records == 4 and data.unplaced == 0
    assert np.allclose(sorted(data.tasks[0].seconds), sorted(0.001 / r for r in (1, 2, 4, 8)))


MUTATIONS: list[Any] = [
    {"i": 1, "r": 2}, {"i": [], "r": []}, {"i": [[1], [2]], "r": [[], 0, 0, 0]}, [0, []], ["x", "y"],
    [0, [1, 2, 3, 4]], [0, [[[], []], [0.1], "llvm", []]], {"i": None, "r": None},
    [None, [[None], [None], None, {}]],
]  # fmt: skip


@pytest.mark.parametrize("document", MUTATIONS, ids=str)
def test_what_is_malformed_has_a_reason(document: Any) -> None:
    assert format_of(document)
    with pytest.raises(Unmapped):
        record_of(observation(document))


def hostile() -> Iterator[Any]:
    """Every value in a line replaced by each of these."""
    values = (None, -1, 0, 1e308, 10**30, "x", "\0", [], {}, [[]], True, float("nan"))

    def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, value in items:
            yield (*path, key)
            yield from places(value, (*path, key))

    for text in (ANSOR[1], METASCHEDULE[0]):
        for path in places(json.loads(text)):
            for value in values:
                document = json.loads(text)
                part = document
                for key in path[:-1]:
                    part = part[key]
                part[path[-1]] = value
                yield document


def test_nothing_crashes() -> None:
    for document in hostile():
        if format_of(document) is None:
            continue
        try:
            record = record_of(observation(document))
        except Unmapped:
            continue
        json.dumps(record.measurement.to_json(), allow_nan=False)
        assert record.is_observation and len(record.id) == 36


def test_a_format_can_be_asked_for(store: Store) -> None:
    assert imported(store, ANSOR, "ansor").new == 5
    done = imported(store, METASCHEDULE, "ansor")
    assert done.new == 0 and done.refused == {"not of the format ansor": len(METASCHEDULE)}
