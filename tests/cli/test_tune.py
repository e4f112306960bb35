"""`tunesmith tune` with a tuner that only plays one: what is shown, stored, returned and said."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cli_samples import TARGET, make_record, make_workload

from tunesmith.cli.main import main
from tunesmith.records import Record, Status
from tunesmith.tuning.types import Event, StoppedBy, TuneOptions, TuneResult

SLOW, FAST = make_record(4e-4), make_record(1e-4, trial=2)
WRONG = make_record(status=Status.WRONG_ANSWER, error="element [3, 1]: 2.0, expected 3.0\nmore", trial=1)


class Player:
    """Stands for `tunesmith.tuning.tune`: stores the given records, reports them and returns a result."""

    def __init__(
        self,
        records: Sequence[Record],
        stopped_by: StoppedBy = StoppedBy.TRIALS,
        disabled_rules: tuple[str, ...] = (),
    ) -> None:
        self.records = records
        self.stopped_by = stopped_by
        self.disabled_rules = disabled_rules
        self.options: TuneOptions | None = None
        self.before_end: Callable[[], None] = lambda: None

    def __call__(
        self,
        program: Any,
        options: TuneOptions,
        store: Any,
        *,
        on_event: Callable[[Event], None],
        should_stop: Callable[[], bool],
        job_id: str | None,
    ) -> TuneResult:
        self.options = options
        best: Record | None = None
        on_event(Event("start", 0, options.trials, 0.1, message="resuming with 0 trials"))
        for done, record in enumerate(self.records, 1):
            store.add(record)
            if record.measurement.ok and (best is None or record.time_s < best.time_s):
                best = record
            on_event(Event("search", done, options.trials, 0.5 * done, record, best, untuned_s=4e-4))
        self.before_end()
        return TuneResult(
            workload=make_workload(),
            target=TARGET,
            trials=len(self.records),
            statuses=dict(Counter(r.measurement.status for r in self.records)),
            stopped_by=StoppedBy.INTERRUPTED if should_stop() else self.stopped_by,
            elapsed_s=1.5,
            best=best,
            baselines={"untuned": 4e-4, "numpy": 2e-4} if best else {},
            times={"build": 0.9, "run": 0.5, "search": 0.1, "other": 0.0},
            disabled_rules=self.disabled_rules,
        )


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Player], Player]:
    def install(player: Player) -> Player:
        module = sys.modules.get("tunesmith.tuning") or ModuleType("tunesmith.tuning")
        monkeypatch.setattr(module, "tune", player, raising=False)
        return player

    return install


@pytest.fixture
def tune(run, program_file: Path, database: str) -> Callable[..., Any]:
    return lambda *words: run("tune", str(program_file), "--db", database, *words)


def test_the_result_names_the_record_and_what_to_do_next(play, tune) -> None:
    play(Player([SLOW, WRONG, FAST]))
    outcome = tune()
    assert outcome.code == 0
    assert "add: f32, 2.00 MFLOP, 24.0 KiB in and out · Test CPU, 1 thread" in outcome.out
    rows = {line.split()[0]: line for line in outcome.out.splitlines() if line}
    assert rows["tuned"].split()[1:] == ["100", "µs", "20.0", "20.0", "%", "0.2"]
    assert rows["untuned"].endswith("4.00× the tuned time")
    assert rows["numpy"].endswith("2.00× the tuned time")
    assert "3 trials in 1.5 s (build 60 %, run 33 %, search 7 %, other 0 %)" in outcome.out
    assert "1 of 3 trials failed: 1 wrong_answer" in outcome.out
    assert "1× wrong_answer: element [3, 1]: 2.0, expected 3.0\n" in outcome.out
    assert f"tunesmith apply {FAST.id} -o DIR" in outcome.out


def test_rules_that_failed_are_named(play, tune) -> None:
    play(Player([FAST], disabled_rules=("rows: ZeroDivisionError: x",)))
    assert "sketch rule disabled for this program: rows: ZeroDivisionError: x\n" in tune().out
    assert json.loads(tune("--json").out)["disabled_rules"] == ["rows: ZeroDivisionError: x"]


def test_progress_goes_to_standard_error_and_is_sparse(play, tune) -> None:
    play(Player([SLOW, WRONG, FAST, make_record(2e-4, trial=3)]))
    lines = tune().err.splitlines()
    assert lines == [
        "   0.1 s  resuming with 0 trials",
        "   0.5 s  untuned: 400 µs",
        "   1.5 s  trial 3/64: 100 µs  20.0 GFLOP/s  20.0 % of peak  4.00× untuned",
    ]


def test_quiet_shows_no_progress(play, tune) -> None:
    play(Player([SLOW, FAST]))
    assert tune("--quiet").err == ""


def test_json_is_one_object_and_nothing_else(play, tune) -> None:
    play(Player([SLOW, WRONG, FAST]))
    outcome = tune("--json")
    assert outcome.out.count("\n") == 1
    result = json.loads(outcome.out)
    assert {
        "workload",
        "target",
        "trials",
        "statuses",
        "stopped_by",
        "elapsed_s",
        "best",
        "baselines",
    } <= set(result)
    assert result["best"]["record"] == FAST.id
    assert result["statuses"] == {"ok": 2, "wrong_answer": 1}


def test_options_reach_the_tuner(play, tune) -> None:
    player = play(Player([FAST]))
    tune("--threads", "2", "--seed", "7", "--fresh", "--cold", "--trials", "8", "--seconds", "2.5")
    options = player.options
    assert options is not None
    assert (options.trials, options.seconds, options.threads, options.seed) == (8, 2.5, 2, 7)
    assert options.fresh
    assert options.protocol.cache == "cold"


@pytest.mark.parametrize(
    ("words", "trials"), [((), 64), (("--seconds", "3"), None), (("--seconds", "3", "--trials", "5"), 5)]
)
def test_seconds_alone_lift_the_limit_on_trials(
    play, tune, words: tuple[str, ...], trials: int | None
) -> None:
    player = play(Player([FAST]))
    tune(*words)
    assert player.options is not None
    assert player.options.trials == trials


def test_all_trials_failing_counts_the_reasons(play, tune) -> None:
    failures = [WRONG, make_record(status=Status.WRONG_ANSWER, error=WRONG.measurement.error)]
    play(Player([*failures, make_record(status=Status.BUILD_TIMEOUT)], StoppedBy.FAILURES))
    outcome = tune()
    assert outcome.code == 1
    assert "3 of 3 trials failed: 2 wrong_answer, 1 build_timeout" in outcome.out
    assert "2× wrong_answer: element [3, 1]" in outcome.out
    assert "error: no candidate works" in outcome.err


def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(play, tune, program_file: Path) -> None:
    player = play(Player([SLOW, FAST]))
    player.before_end = lambda: os.kill(os.getpid(), signal.SIGINT)
    handler = signal.getsignal(signal.SIGINT)
    outcome = tune("--fresh", "--seed", "3")
    assert outcome.code == 130
    assert "the 2 finished trials are kept" in outcome.err
    assert f"tunesmith tune {program_file} --seed 3 --db sqlite:///" in outcome.err
    assert "--fresh" not in outcome.err
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_stops_at_once(play, tune) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    player = play(Player([SLOW]))
    player.before_end = twice
    outcome = tune()
    assert outcome.code == 130
    assert outcome.out == ""
    assert "finished trials are kept" in outcome.err
    assert json.loads(tune("--json").out)["error"]["exit_code"] == 130


@pytest.mark.parametrize("seed", ["-1", str(1 << 63), "x"])
def test_seeds_that_no_generator_takes(play, tune, seed: str) -> None:
    play(Player([FAST]))
    outcome = tune("--seed", seed)
    assert outcome.code == 2
    assert "argument --seed" in outcome.err


def test_the_database_comes_from_the_flag_then_the_environment(
    play, run, program_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(Player([FAST]))
    monkeypatch.setenv("TUNESMITH_DB", f"sqlite:///{tmp_path / 'env.db'}")
    run("tune", str(program_file))
    run("tune", str(program_file), "--db", f"sqlite:///{tmp_path / 'flag.db'}")
    monkeypatch.delenv("TUNESMITH_DB")
    run("tune", str(program_file))
    assert {p.name for p in tmp_path.glob("*.db")} == {"env.db", "flag.db"}
    assert list((tmp_path / "data").rglob("*.db"))


def test_a_database_that_cannot_be_opened_is_one_message(
    play, run, program_file: Path, tmp_path: Path
) -> None:
    play(Player([FAST]))
    outcome = run("tune", str(program_file), "--db", f"sqlite:///{tmp_path}/no/such/folder/x.db")
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err


def test_faults_of_ours_come_with_their_traceback(play, tune) -> None:
    player = play(Player([FAST]))

    def fail() -> None:
        raise ZeroDivisionError("ours")

    player.before_end = fail
    outcome = tune("--json")
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    assert json.loads(outcome.out)["error"]["type"] == "ZeroDivisionError"


def test_progress_lives_without_a_reader(
    play, program_file: Path, database: str, monkeypatch, capsys
) -> None:
    class Gone:
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None: ...

    play(Player([SLOW, FAST]))
    monkeypatch.setattr("sys.stderr", Gone())
    assert main(["tune", str(program_file), "--db", database]) == 0
