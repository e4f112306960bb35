"""`tunesmith tune` for several programs, with a tuner that only plays one."""

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_samples import TARGET, make_record, make_workload

from tunesmith.cli.many import ManyTally, many_rows
from tunesmith.records import Status
from tunesmith.tuning.types import (
    Event,
    ManyEvent,
    ManyObserver,
    ManyResult,
    StoppedBy,
    TuneOptions,
    TuneResult,
    WeightedTask,
)

FIRST, SECOND = "matmul(8,8,8)", "softmax(4,16)"


class Player:
    """Stands for `tunesmith.tuning.tune_many`: each task but the dead gets one trial of 100 µs."""

    def __init__(self, dead: Sequence[int] = (), before_end: Callable[[], None] = lambda: None) -> None:
        self.dead, self.before_end = dead, before_end
        self.tasks: Sequence[WeightedTask] = ()
        self.options: TuneOptions | None = None
        self.strategy = ""

    def __call__(
        self,
        tasks: Sequence[WeightedTask],
        options: TuneOptions,
        store: Any,
        on_event: ManyObserver,
        should_stop: Callable[[], bool],
        *,
        strategy: str,
    ) -> ManyResult:
        self.tasks, self.options, self.strategy = tasks, options, strategy
        results, total = [], 0.0
        for i, task in enumerate(tasks):
            dead = i in self.dead
            record = make_record(1e-4, status=Status.RUN_ERROR if dead else Status.OK)
            best, ended = (None, StoppedBy.FAILURES) if dead else (record, None)
            total += 0.0 if dead else task.weight * 1e-4
            event = Event("search", 1, None, 0.5, record, best, untuned_s=4e-4)
            on_event(ManyEvent("search", i, event, i + 1, options.trials, i + 0.5, None, None))
            whole = (total, 4 * total) if i == len(tasks) - 1 else (None, None)
            on_event(ManyEvent("slice", i, None, i + 1, options.trials, i + 0.7, *whole, ended))
            results.append(
                TuneResult(
                    make_workload(), TARGET, 1, {record.measurement.status: 1},
                    ended or StoppedBy.TRIALS, 1.0, best, {"untuned": 4e-4}, {},
                )
            )  # fmt: skip
        self.before_end()
        stopped = StoppedBy.INTERRUPTED if should_stop() else StoppedBy.TRIALS
        return ManyResult(tuple(tasks), tuple(results), stopped, 2.5, strategy)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Player]:
    def install(**fields: Any) -> Player:
        import tunesmith.tuning

        player = Player(**fields)
        monkeypatch.setattr(tunesmith.tuning, "tune_many", player, raising=False)
        return player

    return install


def weights(player: Player) -> list[tuple[str, float]]:
    return [(t.label, t.weight) for t in player.tasks]


def test_what_comes_out(play, run, database: str) -> None:
    player = play()
    outcome = run("tune", FIRST, SECOND, "--weights", "3,1", "--db", database)
    assert outcome.code == 0, outcome.err
    assert weights(player) == [(FIRST, 3), (SECOND, 1)]
    rows = {line.split()[0]: line.split()[1:] for line in outcome.out.splitlines() if line}
    assert rows[FIRST][:8] == ["3", "1", "400", "µs", "100", "µs", "4.00×", "20.0"]
    assert rows[FIRST][9:] == ["75.0", "%", "trials"]
    assert "end to end 400 µs, 4.00× untuned" in outcome.out
    assert "2 trials in 2.5 s; stopped: the number of trials is reached" in outcome.out
    assert outcome.err.splitlines() == [
        f"   0.7 s  1/128  {FIRST}: 100 µs  20.0 GFLOP/s  20.0 % of peak  4.00× untuned; end to end –",
        f"   1.7 s  2/128  {SECOND}: 100 µs  20.0 GFLOP/s  20.0 % of peak  4.00× untuned;"
        " end to end 400 µs, 4.00× untuned",
    ]


def test_json_is_one_object(play, run, database: str) -> None:
    play()
    outcome = run("tune", FIRST, SECOND, "--db", database, "--json", "-q")
    assert outcome.err == "" and outcome.out.count("\n") == 1
    result = json.loads(outcome.out)
    assert result["end_to_end_s"] == pytest.approx(2e-4) and result["untuned_s"] == pytest.approx(8e-4)
    assert [(t["label"], t["weight"]) for t in result["tasks"]] == [(FIRST, 1), (SECOND, 1)]
    assert (result["strategy"], result["stopped_by"]) == ("gradient", "trials")


def test_a_dead_program_is_named_and_a_failure(play, run, database: str) -> None:
    play(dead=[1])
    outcome = run("tune", FIRST, SECOND, "--db", database)
    assert outcome.code == 1
    assert f"{SECOND}: 1 trials; no candidate works" in outcome.err
    assert f"error: {SECOND}: no candidate works: 1 run_error" in outcome.err
    assert "end to end 100 µs, 4.00× untuned" in outcome.out


@pytest.mark.parametrize(
    ("words", "trials", "seconds"),
    [((), 128, None), (("--seconds", "9"), None, 9.0), (("--trials", "7"), 7, None)],
)
def test_the_budget_is_for_all(play, run, database: str, words, trials, seconds) -> None:
    player = play()
    run("tune", FIRST, SECOND, "--db", database, "--strategy", "round-robin", *words)
    assert player.options is not None and player.strategy == "round-robin"
    assert (player.options.trials, player.options.seconds) == (trials, seconds)


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_a_file_of_tasks(play, run, database: str, tmp_path: Path, program_file: Path, kind: str) -> None:
    """Paths are relative to the file; what is named twice is one task."""
    folder = program_file.parent / "sub"
    folder.mkdir()
    entries = [{"source": FIRST, "weight": 2.5}, {"source": "../add.py::add"}, {"source": FIRST}]
    lines = [line for e in entries for line in ("[[task]]", *(f"{k} = {v!r}" for k, v in e.items()))]
    file = folder / f"model.{kind}"
    file.write_text("\n".join(lines) if kind == "toml" else json.dumps(entries))
    player = play()
    outcome = run("tune", SECOND, "--tasks", str(file), "--db", database)
    assert outcome.code == 0, outcome.err
    assert weights(player) == [(SECOND, 1), (FIRST, 3.5), ("../add.py::add", 1)]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("t.toml", "[[task]]\nweight = 2\n", "t.toml, task 1: give it a source"),
        ("t.toml", f"[[task]]\nsource = '{FIRST}'\nweigth = 2\n", "task 1: no weigth is known"),
        ("t.toml", f"[[task]]\nsource = '{FIRST}'\nweight = 0\n", "weight must be a positive number, not 0"),
        ("t.toml", "[[task]]\nsource = 'matmull(2,2,2)'\n", "task 1: "),
        ("t.toml", "[[task]]\nsource = 'none.py'\n", "task 1: no file"),
        ("t.toml", "x = 1\n", "holds no tasks"),
        ("t.toml", "[[task]\n", "t.toml: "),
        ("t.json", "{", "t.json: "),
        ("t.json", "{}", "holds no tasks"),
    ],
)
def test_files_that_are_wrong(play, run, tmp_path: Path, name: str, text: str, reason: str) -> None:
    play()
    (tmp_path / name).write_text(text)
    outcome = run("tune", "--tasks", str(tmp_path / name), "--db", f"sqlite:///{tmp_path / 'never.db'}")
    assert outcome.code == 2
    assert reason in outcome.err and "Traceback" not in outcome.err
    assert not (tmp_path / "never.db").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "required: SOURCE, or --tasks FILE"),
        ((FIRST, SECOND, "--weights", "1"), "1 --weights for 2 SOURCEs"),
        ((FIRST, SECOND, "--trials", "1"), "--trials 1 is too little for 2 programs"),
        ((FIRST, "--weights", "1,x"), "argument --weights: invalid list of positive numbers"),
        ((FIRST, "--tasks", "none.toml"), "no file none.toml"),
        (("-", "-"), "standard input is one program"),
    ],
)
def test_words_that_make_no_sense(play, run, words: tuple[str, ...], reason: str) -> None:
    play()
    outcome = run("tune", *words)
    assert outcome.code == 2
    assert reason in outcome.err


def test_ctrl_c_says_how_to_go_on(play, run, database: str) -> None:
    play(before_end=lambda: os.kill(os.getpid(), signal.SIGINT))
    outcome = run("tune", FIRST, SECOND, "--weights", "3,1", "--fresh", "--db", database)
    assert outcome.code == 130
    assert f"the 2 finished trials are kept. To go on: tunesmith tune '{FIRST}' '{SECOND}' --weights 3,1" in (
        outcome.err
    )


def test_the_panel_has_a_line_a_task_and_fits() -> None:
    tasks = [WeightedTask(None, float(w), f"task {w}") for w in (1, 9, 5)]  # type: ignore[arg-type]
    tally = ManyTally(tasks)
    for i in range(3):
        record = make_record(1e-4)
        event = Event("search", 2, None, 0.1, record, record, untuned_s=2e-4)
        assert tally.add(ManyEvent("search", i, event, 2 * i + 2, 64, 0.1, None, None))
    assert not tally.add(ManyEvent("slice", 1, None, 6, 64, 0.2, 15e-4, 30e-4, StoppedBy.ROOFLINE))
    rows = many_rows(tally, 10)
    assert rows[1] == ("task 9", "9×", "2", "100 µs", "2.00× untuned", "60.0 %", "roofline")
    assert [r[0] for r in many_rows(tally, 2)] == ["task 9", "task 5", "… and 1 lighter ones"]
