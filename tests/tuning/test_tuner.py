"""Real, short tuning runs: budgets, resuming, stopping, failing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tunesmith.db import Store, open_store
from tunesmith.frontend import operator
from tunesmith.ir import TunesmithError, canonical, program_from_json
from tunesmith.records import Measurement, Protocol, Status
from tunesmith.schedule import Schedule
from tunesmith.search import derive
from tunesmith.search.default import default_schedule
from tunesmith.search.draft import Draft
from tunesmith.search.rules import DEFAULT_RULES, Hardware
from tunesmith.tuning import Event, StoppedBy, TuneOptions, tuner
from tunesmith.tuning.tuner import tune

QUICK = Protocol(samples=3, sample_s=0.0005, warmup_s=0.0)
PROGRAM = operator("matmul(24,16,20)")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/tuning.db") as opened:
        yield opened


def options(trials: int | None = 6, **others: object) -> TuneOptions:
    return TuneOptions(trials=trials, protocol=QUICK, **others)  # type: ignore[arg-type]


def test_every_trial_is_kept_and_the_winner_served(store: Store) -> None:
    events: list[Event] = []
    result = tune(PROGRAM, options(), store, events.append)
    records = store.history(result.workload.hash, result.target.fingerprint)
    assert result.stopped_by is StoppedBy.TRIALS
    assert sorted(r.trial for r in records) == list(range(6)), "in the order in which they end"
    assert sum(result.statuses.values()) == 6
    served = store.best(result.workload.hash, result.target)
    assert served is not None and result.best is not None
    assert served.record.id == result.best.id and served.raced
    assert set(result.baselines) == {"untuned"}
    assert [e.phase for e in events if e.record is None] == ["start", "race", "done"]


def test_the_untuned_schedule_is_the_first_trial(store: Store) -> None:
    result = tune(PROGRAM, options(2), store)
    first = store.history(result.workload.hash, result.target.fingerprint)[0]
    form = canonical(program_from_json(first.workload.program))
    assert Schedule.from_json(first.schedule) == default_schedule(form, result.target)


def test_a_second_run_goes_on_where_the_first_stopped(store: Store) -> None:
    tune(PROGRAM, options(4), store)
    seen: list[Event] = []
    result = tune(PROGRAM, options(7), store, seen.append)
    records = store.history(result.workload.hash, result.target.fingerprint)
    assert len([e for e in seen if e.record is not None]) == 3
    assert len({r.schedule_hash for r in records}) == len(records) == 7


def test_a_finished_run_measures_nothing(store: Store) -> None:
    first = tune(PROGRAM, options(4), store)
    again = tune(PROGRAM, options(4), store)
    assert again.trials == 4 and again.best is not None and first.best is not None
    assert again.best.id == first.best.id
    assert again.best.time_s == pytest.approx(first.best.time_s)


def test_cold_and_warm_trials_do_not_mix(store: Store) -> None:
    tune(PROGRAM, options(3), store)
    cold = TuneOptions(trials=2, protocol=Protocol(cache="cold", samples=3))
    result = tune(PROGRAM, cold, store)
    records = store.history(result.workload.hash, result.target.fingerprint)
    assert result.trials == 2
    assert [r.protocol.cache for r in records] == ["warm"] * 3 + ["cold"] * 2


def test_numpy_is_timed_where_it_means_something(store: Store) -> None:
    result = tune(operator("matmul(256,256,256)"), options(2), store)
    assert result.baselines["numpy"] > 0


def test_fresh_starts_over(store: Store) -> None:
    tune(PROGRAM, options(3), store)
    result = tune(PROGRAM, options(3, fresh=True), store)
    assert result.trials == 3
    assert len(store.history(result.workload.hash, result.target.fingerprint)) == 6


def test_another_spelling_finds_the_same_records(store: Store) -> None:
    from tunesmith.ir import parse

    tune(PROGRAM, options(3), store)
    text = "def product(left: f32[24, 20], right: f32[20, 16]):\n    return left @ right\n"
    assert tune(parse(text), options(3), store).trials == 3


def test_stopping_keeps_what_there_is(store: Store) -> None:
    count = 0

    def note(event: Event) -> None:
        nonlocal count
        count += event.record is not None

    result = tune(PROGRAM, options(500), store, note, should_stop=lambda: count >= 3)
    assert result.stopped_by is StoppedBy.INTERRUPTED
    assert 3 <= result.trials < 500 and result.best is not None


def test_seconds_are_a_budget_too(store: Store) -> None:
    result = tune(PROGRAM, options(None, seconds=0.8), store)
    assert result.stopped_by is StoppedBy.SECONDS


def test_a_small_space_is_exhausted(store: Store) -> None:
    result = tune(operator("sumsq(8,16)"), options(400), store)
    assert result.stopped_by in (StoppedBy.EXHAUSTED, StoppedBy.ROOFLINE)
    assert result.trials < 400


def test_when_everything_fails_the_run_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner under which nothing works: the run ends by itself, with every failure kept."""
    from tunesmith.tuning import pipeline

    def fail(self: pipeline.Pipeline, best_s: object) -> list[pipeline.Trial]:
        trials = list(self.in_flight.values())
        for trial in trials:
            trial.measurement = Measurement(Status.RUN_ERROR, error="SIGILL while verifying", signal=4)
        self.in_flight.clear()
        return trials

    monkeypatch.setattr(pipeline.Pipeline, "collect", fail)
    result = tune(PROGRAM, options(300), store)
    assert result.stopped_by is StoppedBy.FAILURES
    assert result.best is None and result.baselines == {}
    assert set(result.statuses) == {Status.RUN_ERROR} and result.trials < 100


@dataclass(frozen=True)
class FailingRule:
    name: str = "failing"

    def apply(self, draft: Draft, stage: str, hardware: Hardware, most: int) -> list[Draft]:
        raise ZeroDivisionError("a fault of the rule")


def test_a_rule_that_fails_is_reported(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (FailingRule(), *DEFAULT_RULES)
    monkeypatch.setattr(tuner, "derive", lambda program, target: derive(program, target, rules))
    events: list[Event] = []
    result = tune(PROGRAM, options(), store, events.append)
    assert result.best is not None and result.trials == 6
    assert result.disabled_rules == ("failing: ZeroDivisionError: a fault of the rule",)
    assert any("failing: ZeroDivisionError" in e.message for e in events)


def test_what_does_not_fit_in_memory_is_refused_at_once(store: Store) -> None:
    events: list[Event] = []
    for text in ("matmul(1048576, 1048576, 8)", "relu_muladd(1099511627776)"):
        with pytest.raises(
            TunesmithError, match=r"too large for this machine: .* GiB; the largest is \w+, f32"
        ):
            tune(operator(text), options(), store, events.append)
    assert events == []


def test_the_same_seed_and_records_propose_the_same(tmp_path: Path) -> None:
    """The first batches depend on nothing measured."""
    runs = []
    for name in ("a", "b"):
        with open_store(f"sqlite:///{tmp_path}/{name}.db") as opened:
            result = tune(PROGRAM, options(8, seed=3), opened)
            history = opened.history(result.workload.hash, result.target.fingerprint)
            runs.append({r.trial: r.schedule_hash for r in history})
    assert runs[0] == runs[1]


def test_what_was_under_way_at_the_end_counts_as_work(store: Store) -> None:
    """Building and running until a run is stopped is no idle time, though nobody waits for what is left."""
    seen: list[Event] = []
    result = tune(PROGRAM, options(None), store, seen.append, lambda: len(seen) > 12)
    assert result.stopped_by is StoppedBy.INTERRUPTED
    race = next(e.elapsed_s for e in seen if e.phase == "race")
    first = next(e.elapsed_s for e in seen if e.record is not None)
    assert result.elapsed_s - result.times["idle"] >= race - first
