"""Real, tiny runs of several programs, and of one in slices."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import tunesmith
from tunesmith.db import JobSpec, Store, open_store
from tunesmith.frontend import operator
from tunesmith.ir import TunesmithError
from tunesmith.measure import BuildPool, detect_target, reserved_cores
from tunesmith.records import Measurement, Protocol, Status, new_id
from tunesmith.tuning import ManyEvent, StoppedBy, TuneOptions, WeightedTask, many, merge_tasks, pipeline
from tunesmith.tuning.many import tune_many
from tunesmith.tuning.tuner import Session, tune
from tunesmith.tuning.workload import workload_of

QUICK = Protocol(samples=3, sample_s=0.0005, warmup_s=0.0)
PRODUCT, ROWS, SCALE = operator("matmul(24,16,20)"), operator("softmax(12,40)"), operator("relu_muladd(512)")
TASKS = (WeightedTask(PRODUCT, 3.0, "product"), WeightedTask(ROWS, 1.0, "rows"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/many.db") as opened:
        yield opened


def options(trials: int | None = 16, **others: object) -> TuneOptions:
    return TuneOptions(trials=trials, protocol=QUICK, **others)  # type: ignore[arg-type]


def recorded(store: Store, task: WeightedTask) -> int:
    return len(store.history(workload_of(task.program)[0].hash, detect_target(1).fingerprint))


# -- one program, in slices ---------------------------------------------------------------------------------


def test_a_session_goes_on_where_it_was(store: Store) -> None:
    with (
        closing(Session(PRODUCT, options(None, seed=3), store)) as session,
        BuildPool(1, QUICK) as builders,
        reserved_cores(1),
    ):
        assert not session.is_open and session.trials == 0
        session.open(builders)
        for trials in (6, 6, 3):
            before = session.trials
            session.advance(trials)
            assert session.stopped is None and session.trials == before + trials
            session.rest()
            assert session.runner is not None and session.runner.crew.pids == ()
        result = session.finish(StoppedBy.TRIALS)
    assert result.stopped_by is StoppedBy.TRIALS and result.trials == 15
    history = store.history(result.workload.hash, result.target.fingerprint)
    assert [r.trial for r in history] == list(range(15))
    assert len({r.schedule_hash for r in history}) == 15
    assert list(session.curve) == sorted(session.curve, reverse=True) and len(session.curve) == 15
    served = store.best(result.workload.hash, result.target)
    assert served is not None and result.best is not None and served.record.id == result.best.id
    assert result.times["build"] > 0 and 0 < result.elapsed_s < 60


def test_what_one_leaves_in_flight_the_next_passes_over(store: Store) -> None:
    """Both use the same builders; the numbers of their trials are the same."""
    with BuildPool(1, QUICK) as builders, reserved_cores(1):
        first, second = (Session(t.program, options(None), store) for t in TASKS)
        with closing(first), closing(second):
            for session in (first, second):
                session.open(builders)
            first.advance(1)
            first._submit([(pipeline.Trial(1, first.search.schedule(c)), c) for c in first._propose(4)])
            first.rest()
            second.advance(5)
            first.advance(4)
            assert (first.trials, second.trials) == (5, 5)
            assert all(r.measurement.ok for r in first.state.records + second.state.records)


def test_without_a_trial_a_session_knows_what_is_on_record(store: Store) -> None:
    done = tune(PRODUCT, options(4), store)
    result = Session(PRODUCT, options(None), store).finish(StoppedBy.SECONDS)
    assert result.trials == 4 and result.stopped_by is StoppedBy.SECONDS
    assert result.best is not None and done.best is not None and result.best.id == done.best.id


def test_a_job_that_goes_on_does_not_try_the_untuned_schedule_again(store: Store) -> None:
    """It failed, and that is on record."""
    tune(PRODUCT, options(1), store)
    workload = workload_of(PRODUCT)[0]
    (untuned,) = store.history(workload.hash, detect_target(1).fingerprint)
    job, _ = store.jobs.create(JobSpec(workload, {}, {}, 4))
    failed = Measurement(Status.RUN_ERROR, error="crashed")
    store.add(replace(untuned, id=new_id(), job_id=job.id, measurement=failed))
    tune(PRODUCT, options(4, fresh=True), store, job_id=job.id)
    records = store.records(job=job.id).items
    assert len(records) == 4 == len({record.schedule_hash for record in records})


# -- several ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_the_budget_is_shared(store: Store, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "_AWAKE", 1)
    events: list[ManyEvent] = []
    result = tune_many(TASKS, options(), store, events.append, strategy=strategy)
    assert result.stopped_by is StoppedBy.TRIALS and result.trials == 16 and result.strategy == strategy
    assert sum(recorded(store, t) for t in TASKS) == 16
    assert min(r.trials for r in result.results) >= 4
    if strategy == "round-robin":
        assert [r.trials for r in result.results] == [8, 8]
    for one in result.results:
        served = store.best(one.workload.hash, one.target)
        assert served is not None and one.best is not None
        assert served.record.id == one.best.id and served.raced
    times = [r.best.time_s for r in result.results if r.best is not None]
    assert result.end_to_end_s == pytest.approx(3 * times[0] + times[1])
    assert result.untuned_s is not None and result.untuned_s > 0
    told = [e for e in events if e.event is not None and e.event.record is not None]
    assert [e.trials for e in told] == list(range(1, 17)) and {e.budget for e in told} == {16}
    assert told[0].end_to_end_s is None and told[-1].end_to_end_s is not None
    assert [e.phase for e in events].count("slice") == 4, "of four trials"
    assert events[-1].phase == "done"


def test_the_same_command_goes_on_and_then_has_nothing_to_do(store: Store) -> None:
    seen: list[ManyEvent] = []
    stopped = tune_many(TASKS, options(), store, seen.append, should_stop=lambda: len(seen) > 8)
    assert stopped.stopped_by is StoppedBy.INTERRUPTED and 0 < stopped.trials < 16
    result = tune_many(TASKS, options(), store)
    assert result.trials == 16 == sum(recorded(store, t) for t in TASKS)
    again = tune_many(TASKS, options(), store)
    assert again.trials == 16 and again.elapsed_s < 1
    assert [r.best and r.best.id for r in again.results] == [r.best and r.best.id for r in result.results]


def test_what_is_on_record_of_one_does_not_starve_the_other(store: Store) -> None:
    tune(PRODUCT, options(16), store)
    result = tune_many(TASKS, options(16), store)
    assert [r.trials for r in result.results] == [16, 4], "a first slice"


@pytest.mark.parametrize("index", [0, 1])
def test_a_first_slice_that_was_broken_off_is_only_completed(store: Store, index: int) -> None:
    """A full one would leave too little of the budget for that of the other, which then goes beyond it."""
    tune(TASKS[index].program, options(3), store)
    assert tune_many(TASKS, options(9), store).trials == 9


def test_identical_programs_are_one() -> None:
    spelled = tunesmith.parse("def p(left: f32[24, 20], right: f32[20, 16]):\n    return left @ right\n")
    merged = merge_tasks([WeightedTask(PRODUCT, 2), WeightedTask(ROWS), WeightedTask(spelled, 5)])
    assert [(t.label, t.weight) for t in merged] == [(PRODUCT.name, 7), (ROWS.name, 1)]


def test_a_dead_task_is_reported_and_costs_two_slices(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = pipeline.Pipeline.collect
    name = workload_of(PRODUCT)[1]

    def fail(self: pipeline.Pipeline, best_s: object) -> list[pipeline.Trial]:
        done = collect(self, lambda: None)
        for trial in done if self.program == name else ():
            trial.measurement = Measurement(Status.RUN_ERROR, error="SIGILL", signal=4)
        return done

    monkeypatch.setattr(pipeline.Pipeline, "collect", fail)
    result = tune_many(TASKS, options(32), store)
    dead, alive = result.results
    assert dead.stopped_by is StoppedBy.FAILURES and dead.best is None and dead.trials == 8
    assert alive.best is not None and alive.trials == 24
    assert result.end_to_end_s == pytest.approx(alive.best.time_s)
    again = tune_many(TASKS, options(32), store)
    assert (again.results[0].trials, again.results[0].stopped_by) == (8, StoppedBy.FAILURES)


def test_when_each_has_ended_so_has_all(store: Store) -> None:
    small = (WeightedTask(operator("sumsq(8,16)")), WeightedTask(operator("sumsq(4,16)")))
    result = tune_many(small, options(None), store)
    assert result.stopped_by is StoppedBy.TASKS
    ends = {StoppedBy.EXHAUSTED, StoppedBy.ROOFLINE, StoppedBy.PLATEAU}
    assert {r.stopped_by for r in result.results} <= ends


def test_seconds_are_for_all(store: Store) -> None:
    more = (WeightedTask(operator("softmax(16,48)")), WeightedTask(operator("layer_norm(12,40)")))
    result = tune_many([*TASKS, *more], options(None, seconds=4.0), store)  # more than can be ended by then
    assert result.stopped_by is StoppedBy.SECONDS and result.trials > 0


def test_the_python_face(tmp_path: Path) -> None:
    result = tunesmith.tune_many(
        [(PRODUCT, 3), "def s(x: f32[12, 40]):\n    return exp(x)\n"], trials=4, db=tmp_path / "t.db",
        protocol=QUICK,
    )  # fmt: skip
    assert [(t.label, t.weight) for t in result.tasks] == [(PRODUCT.name, 3), ("s", 1)]
    data = result.to_json()
    assert data["trials"] == 4 and [t["trials"] for t in data["tasks"]] == [r.trials for r in result.results]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"tasks": []}, "at least one"),
        ({"trials": 1}, "1 trials are too few for 2 tasks"),
        ({"strategy": "best"}, "no strategy 'best'; there are gradient, round-robin"),
        ({"tasks": [(PRODUCT, 0)]}, "a weight must be a positive number, not 0"),
        ({"tasks": [(PRODUCT, float("nan"))]}, "a weight"),
    ],
)
def test_what_makes_no_sense(arguments: dict[str, object], reason: str, tmp_path: Path) -> None:
    given = {"tasks": [PRODUCT, ROWS]} | arguments
    with pytest.raises(TunesmithError, match=reason):
        tunesmith.tune_many(db=tmp_path / "t.db", **given)  # type: ignore[arg-type]
