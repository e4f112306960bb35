"""Starting from what is known of other shapes, and answering for shapes never tuned."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tunesmith
from tunesmith.db import Store, open_store
from tunesmith.frontend import operator
from tunesmith.ir import program_from_json
from tunesmith.measure import detect_target
from tunesmith.records import Measurement, Protocol, Record, Status, Target, new_id, utc_now
from tunesmith.schedule import Schedule
from tunesmith.search import derive
from tunesmith.search.population import sample
from tunesmith.tuning import Event, TuneOptions
from tunesmith.tuning.near import NothingNear, confirm, estimate
from tunesmith.tuning.neighbours import seeds
from tunesmith.tuning.recording import schedule_of
from tunesmith.tuning.tuner import tune
from tunesmith.tuning.workload import versions, workload_of

QUICK = Protocol(samples=3, sample_s=0.0005, warmup_s=0.0)
WANTED = operator("matmul(24,16,20)")
KNOWN = ("matmul(32,16,20)", "matmul(24,24,24)", "matmul(16,16,40)")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/tuning.db") as opened:
        yield opened


@pytest.fixture(scope="module")
def target() -> Target:
    return detect_target(1)


def made(text: str, target: Target, time_s: float = 1e-6, sketch: int = 0, **changes: object) -> Record:
    """A record of a random schedule of one sketch."""
    workload, form = workload_of(operator(text))
    chosen = derive(form, target).sketches[sketch]
    schedule = chosen.decode(sample(chosen, 1, np.random.default_rng(0))[0])
    record = Record(
        new_id(), workload, target, schedule.to_json(), schedule.hash, Measurement(Status.OK, (time_s,) * 3),
        Protocol(), 0, 0, utc_now(), versions(),
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


def run(store: Store, **options: object) -> tuple[list[Schedule | None], list[str]]:
    """Schedules in the order of trials, and messages."""
    events: list[Event] = []
    tune(WANTED, TuneOptions(trials=6, protocol=QUICK, **options), store, events.append)  # type: ignore[arg-type]
    records = sorted((e.record for e in events if e.record is not None), key=lambda r: r.trial)
    return [schedule_of(r) for r in records], [e.message for e in events if e.message]


def test_a_run_tries_the_neighbours_schedules_first(store: Store, target: Target) -> None:
    near, far = made(KNOWN[0], target, sketch=1), made("matmul(256,256,256)", target)
    store.add_all([far, near])
    workload, form = workload_of(WANTED)
    space = derive(form, target)
    expected = [space.decode(c) for c in seeds(store, workload, space, target, 0).candidates]
    schedules, messages = run(store)
    assert schedules[1:3] == expected
    assert messages[0] == "starts from what is known of matmul(32×20, 20×16), matmul(256×256, 256×256)"


def test_what_cannot_be_used_is_said_and_the_run_goes_on(store: Store, target: Target) -> None:
    foreign = made(KNOWN[0], target, schedule={"version": 999, "steps": []})
    strange = made(KNOWN[1], target, schedule=Schedule().to_json())
    store.add_all([foreign, strange])
    schedules, messages = run(store)
    assert len(schedules) == 6
    assert [m.split(": ")[0] for m in messages] == [
        "no use of matmul(32×20, 20×16)", "no use of matmul(24×24, 24×24)"
    ]  # fmt: skip
    assert "schedule version 1 expected" in messages[0] and "of its steps" in messages[1]


def test_the_same_records_and_seed_give_the_same_trials(tmp_path: Path, target: Target) -> None:
    records = [made(text, target, sketch=i) for i, text in enumerate(KNOWN)]
    runs = []
    for name in ("a", "b"):
        with open_store(f"sqlite:///{tmp_path}/{name}.db") as opened:
            opened.add_all(records)
            runs.append(run(opened, seed=3))
    assert runs[0] == runs[1]


def test_fresh_uses_nothing(store: Store, target: Target) -> None:
    store.add(made(KNOWN[0], target))
    assert run(store, fresh=True)[1] == []


def test_other_targets_of_the_architecture_help(store: Store, target: Target) -> None:
    elsewhere = replace(target, model="Another CPU", l2_bytes=2 * target.l2_bytes, cpu="other")
    store.add(made("matmul(24,16,20)", elsewhere))
    assert run(store)[1] == ["starts from what is known of matmul(24×20, 20×16) on Another CPU"]


def test_nothing_near(store: Store, target: Target) -> None:
    with pytest.raises(NothingNear, match="nothing is known of other shapes of matmul"):
        estimate(WANTED, target, store)
    store.add(made(KNOWN[0], target, schedule={"version": 999, "steps": []}))
    with pytest.raises(NothingNear, match=r"no use of .* schedule version"):
        estimate(WANTED, target, store)


def test_an_estimate_says_what_it_rests_on(store: Store, target: Target) -> None:
    records = [made(text, target, sketch=i) for i, text in enumerate(KNOWN)]
    store.add_all(records[:2])
    few = estimate(WANTED, target, store)
    assert {n.best.record.id for n in few.neighbours} == {r.id for r in records[:2]}
    assert "loss: from the distance alone, 10% a factor of two" in few.basis
    assert few.loss == pytest.approx(0.1 * few.source.distance)
    store.add(records[2])
    more = estimate(WANTED, target, store)
    assert "time: 3 records" in more.basis and "loss: 3 transfers among them" in more.basis
    assert more == estimate(WANTED, target, store)


def test_the_estimated_time_follows_what_neighbours_took(tmp_path: Path, target: Target) -> None:
    times = []
    for factor in (1, 3):
        with open_store(tmp_path / f"{factor}.db") as opened:
            opened.add_all(made(text, target, factor * 1e-6) for text in KNOWN)
            times.append(estimate(WANTED, target, opened).time_s)
    assert times[1] == pytest.approx(3 * times[0])


def test_a_transfer_that_was_measured_counts_as_measured(store: Store, target: Target) -> None:
    """What others suggest for a neighbour is among that one's trials, half as fast as its best."""
    store.add_all(made(text, target, sketch=i) for i, text in enumerate(KNOWN))
    workload, form = workload_of(operator(KNOWN[0]))
    space = derive(form, target)
    for candidate in seeds(store, workload, space, target, 0).candidates:
        schedule = space.decode(candidate)
        trial = made(KNOWN[0], target, 2e-6, schedule=schedule.to_json(), schedule_hash=schedule.hash)
        store.add(trial)
    assert "of them measured" in estimate(WANTED, target, store).basis


def test_confirming_leaves_a_verified_record(store: Store, target: Target) -> None:
    store.add(made(KNOWN[0], target))
    answer = estimate(WANTED, target, store)
    record = confirm(WANTED, answer, store)
    assert record.measurement.ok and schedule_of(record) == answer.schedules[0]
    served = store.best(record.workload.hash, target)
    assert served is not None and served.record == record
    result = tune(WANTED, TuneOptions(trials=3, protocol=QUICK), store)
    assert result.trials == 3 and "untuned" in result.baselines


def test_a_schedule_that_fails_here_is_recorded_and_the_next_tried(
    store: Store, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_all(made(text, target, sketch=i) for i, text in enumerate(KNOWN))
    answer = estimate(WANTED, target, store)
    assert len(answer.schedules) > 1
    outcomes = iter([Measurement(Status.WRONG_ANSWER, error="off"), Measurement(Status.OK, (1e-6,) * 3)])
    monkeypatch.setattr("tunesmith.tuning.near._measured", lambda *_: next(outcomes))
    record = confirm(WANTED, answer, store)
    assert (record.trial, schedule_of(record)) == (1, answer.schedules[1])
    history = store.history(record.workload.hash, target.fingerprint)
    assert [r.measurement.status for r in history] == [Status.WRONG_ANSWER, Status.OK]
    crash = Measurement(Status.RUN_ERROR, error="x")
    monkeypatch.setattr("tunesmith.tuning.near._measured", lambda *_: crash)
    with pytest.raises(tunesmith.TunesmithError, match="none of the suggested schedules works here: x"):
        confirm(WANTED, answer, store)


def test_the_python_face(tmp_path: Path, target: Target) -> None:
    db = tmp_path / "known.db"
    with open_store(db) as opened:
        opened.add(made(KNOWN[0], target))
    answer = tunesmith.near(WANTED, db=db)
    assert answer.time_s > 0 and answer.gflops == pytest.approx(answer.workload.flops / answer.time_s / 1e9)
    kernel = tunesmith.load(WANTED, db=db, near=True)
    assert kernel.record is None and kernel.schedule == answer.schedules[0]
    a, b = np.ones((24, 20), np.float32), np.ones((20, 16), np.float32)
    np.testing.assert_allclose(kernel(a, b), a @ b)
    nothing = tunesmith.load("def f(x: f32[8]):\n    return x * 2\n", db=db, near=True)
    np.testing.assert_allclose(nothing(np.ones(8, np.float32)), 2)


def test_workloads_hold_their_extents() -> None:
    workload, _ = workload_of(WANTED)
    assert workload.extents == (24, 16, 20)
    assert workload_of(program_from_json(workload.program))[0].extents == workload.extents
