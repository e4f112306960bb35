"""Real, tiny collections: what is stored, that they go on, and that training reads them."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tunesmith.costmodel import NAMES, Ranker, Recipe
from tunesmith.costmodel.training import train
from tunesmith.db import Store, open_store
from tunesmith.frontend import operator
from tunesmith.ir import canonical
from tunesmith.measure import detect_target
from tunesmith.records import Peaks, Protocol, Target
from tunesmith.search import Space, derive
from tunesmith.search.default import default_schedule
from tunesmith.search.ports import seconds_of
from tunesmith.tuning import CollectOptions, Task, TaskDone, TuneOptions, collect, load_dataset
from tunesmith.tuning.pretrained import pretrained
from tunesmith.tuning.samples import sample_schedules
from tunesmith.tuning.tuner import tune

QUICK = Protocol(samples=3, sample_s=0.0005, warmup_s=0.0)
OPERATORS = {"product": "matmul(24,16,20)", "rows": "softmax(12,40)"}
TASKS = [
    Task(i, family, text, replace(operator(text), name=family))
    for i, (family, text) in enumerate(OPERATORS.items())
]
PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
# What a model predicts is asked of one machine, on whichever machine the tests run.
TARGET = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)
OPTIONS = CollectOptions(per_task=4, protocol=QUICK)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/collection.db") as opened:
        yield opened


def space_of(text: str) -> tuple[Space, Ranker]:
    program = canonical(operator(text))
    space = derive(program, TARGET)
    return space, Ranker(program, space.sketches, TARGET)


def test_every_task_gets_its_trials_once(store: Store) -> None:
    done: list[TaskDone] = []
    result = collect(TASKS, OPTIONS, store, done.append)
    assert (result.tasks, result.complete, result.trials, result.interrupted) == (2, 0, 8, False)
    assert [(d.task.family, d.trials, d.measured) for d in done] == [("product", 4, 4), ("rows", 4, 4)]
    assert all(d.best_s is not None and d.best_s > 0 for d in done)
    assert 0 < result.busy_s <= result.elapsed_s
    workloads = store.workloads().items
    assert {w.name: w.n_records for w in workloads} == {"product": 4, "rows": 4}

    again = collect(TASKS, OPTIONS, store, done.append)
    assert (again.tasks, again.complete, again.trials) == (0, 2, 0)
    assert [(d.trials, d.measured) for d in done[2:]] == [(4, 0), (4, 0)]

    more = collect(TASKS[:1], replace(OPTIONS, per_task=6), store)
    assert (more.tasks, more.trials) == (1, 2)
    (product,) = (w for w in store.workloads().items if w.name == "product")
    records = store.history(product.hash, detect_target(1).fingerprint)
    assert sorted(r.trial for r in records) == list(range(6))
    assert len({r.schedule_hash for r in records}) == 6


def test_a_stop_keeps_what_there_is(store: Store) -> None:
    done: list[TaskDone] = []
    stopped = collect(TASKS, OPTIONS, store, done.append, should_stop=lambda: bool(done))
    assert stopped.interrupted and (stopped.tasks, stopped.trials) == (1, 4)
    assert collect(TASKS, OPTIONS, store).trials == 4


def test_the_trials_are_those_of_any_search(store: Store) -> None:
    """A later search counts them, learns from them, and serves the best."""
    collect(TASKS[:1], OPTIONS, store)
    result = tune(TASKS[0].program, TuneOptions(trials=6, protocol=QUICK), store)
    assert result.trials == 6 and result.best is not None


def test_a_mixture_of_good_and_bad() -> None:
    space, ranker = space_of("matmul(256,256,256)")
    drawn = sample_schedules(space, ranker, 40, np.random.default_rng(0))
    assert drawn == sample_schedules(space, ranker, 40, np.random.default_rng(0))
    assert len(drawn) == len({s.hash for s in drawn}) == 40
    places = [space.locate(s) for s in drawn]
    seconds = np.array([seconds_of(ranker, c.sketch, np.array([c.row]))[0] for c in places if c is not None])
    assert len(seconds) == 40
    assert np.median(seconds[:10]) < np.median(seconds[10:20]) < np.median(seconds[30:])
    assert seconds.max() > 3 * seconds.min()
    assert len({c.sketch for c in places if c is not None}) > len(space.sketches) // 2


def test_small_spaces_give_what_they_have() -> None:
    space, ranker = space_of("norm(1,16,16)")
    drawn = sample_schedules(space, ranker, 64, np.random.default_rng(0))
    assert 0 < len(drawn) <= space.size


def test_records_become_samples(store: Store) -> None:
    collect(TASKS, OPTIONS, store)
    tune(TASKS[0].program, TuneOptions(trials=6, protocol=QUICK), store)
    read: list[int] = []
    data = load_dataset(store, on_task=read.append)
    assert read == [1, 2]
    by_family = {t.family: t for t in data.tasks}
    assert {f: len(t.seconds) for f, t in by_family.items()} == {"product": 5, "rows": 4}
    assert data.records == 9 and data.small == 0
    assert data.unplaced == 1, "the untuned schedule is in no sketch"
    product = by_family["product"]
    assert product.matrix.shape == (5, len(NAMES))
    records = store.history(product.workload, detect_target(1).fingerprint)
    default = default_schedule(canonical(TASKS[0].program), detect_target(1)).hash
    assert sorted(product.seconds) == sorted(r.time_s for r in records if r.schedule_hash != default)
    model = train(data.tasks, Recipe(rounds=3))
    assert model.about["families"] == {"product": 1, "rows": 1}


def test_why_no_model_is_used_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"no archive")
    monkeypatch.setenv("TUNESMITH_MODEL", str(broken))
    with caplog.at_level(logging.WARNING):
        assert pretrained().model is None
    assert "cannot be read as a model" in caplog.text
    monkeypatch.setenv("TUNESMITH_MODEL", "none")
    assert "TUNESMITH_MODEL=none" in pretrained().reason
