"""`tunesmith collect` and `tunesmith train`, from tasks to a model that is used."""

import json
import os
import signal
from pathlib import Path

import pytest

from tunesmith.costmodel import load_model
from tunesmith.records import Protocol
from tunesmith.tuning import collection


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short timing: what is measured does not matter here."""

    def options(*args: object) -> collection.CollectOptions:
        protocol = Protocol(samples=2, sample_s=0.0002, warmup_s=0.0)
        return collection.CollectOptions(*args, protocol)  # type: ignore[arg-type]

    monkeypatch.setattr("tunesmith.tuning.CollectOptions", options)


SMALL = ("--families", "softmax,gemv", "--per-task", "4")


def test_from_tasks_to_a_model(run, database: str, tmp_path: Path) -> None:
    first = run("collect", "--tasks", "2", *SMALL, "--db", database)
    assert first.code == 0, first.err
    lines = first.err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("task 1/2  ") and ": 4 trials, best " in lines[0]
    assert "2 tasks measured, 0 complete before" in first.out
    assert "trials a second (build " in first.out

    more = run("collect", "--tasks", "3", *SMALL, "--db", database, "--json")
    result = json.loads(more.out)
    assert (result["tasks"], result["complete"], result["trials"]) == (1, 2, 4)
    assert more.err.splitlines()[0].endswith(", on record")

    model = tmp_path / "mine.zip"
    trained = run("train", "--db", database, "--out", str(model), "-q")
    assert trained.code == 0, trained.err
    assert "12 records of 3 workloads" in trained.out
    assert "held out: 20% of the workloads" in trained.out
    assert f"TUNESMITH_MODEL={model}" in trained.out
    about = load_model(model).about
    assert (about["tasks"], about["records"], about["held_out"]) == (3, 12, [])
    assert set(about["evaluation"]) == {"prior", "model"} and about["recipe"]["seed"] == 0

    families = sorted(about["families"])
    report = json.loads(run("train", "--db", database, "--held-out", families[0], "--json", "-q").out)
    assert report["held_out"] == families[:1] and report["file"] is None
    assert 0 <= report["evaluation"]["model"]["pairwise"] <= 1


def test_ctrl_c_is_told(run, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("tunesmith.cli.collect._progress", stop)
    outcome = run("collect", "--tasks", "3", *SMALL, "--db", database)
    assert outcome.code == 130
    assert "the same command goes on" in outcome.err
    assert "1 tasks measured" in outcome.out


@pytest.mark.parametrize("flag", ["--families", "--without"])
def test_families_that_do_not_exist(run, database: str, flag: str) -> None:
    outcome = run("collect", flag, "softmx", "--db", database)
    assert outcome.code == 1
    assert "no family softmx; there are matmul" in outcome.err
    assert "Traceback" not in outcome.err


def test_too_little_to_train_on(run, database: str) -> None:
    run("collect", "--tasks", "1", *SMALL, "--db", database, "-q")
    outcome = run("train", "--db", database, "-q")
    assert outcome.code == 1
    assert "1 workloads are too few to hold some out" in outcome.err
    outcome = run("train", "--db", database, "--held-out", "attention", "-q")
    assert outcome.code == 2
    assert "no records of attention; there are " in outcome.err
