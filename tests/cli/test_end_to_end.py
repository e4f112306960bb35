"""The command as a person runs it: a real search on this machine, then everything that follows from it."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """\
def small(a: f32[32, 48], b: f32[48, 40], c: f32[40]):
    y[i, j] = sum(a[i, k] * b[k, j], k)
    return relu(y + c)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tuned program: `small.py`, the database, and the result of the search."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "small.py").write_text(PROGRAM)
    done = command(folder, "tune", "small.py", "--trials", "6", "--json")
    assert done.returncode == 0, done.stderr
    (folder / "result.json").write_text(done.stdout)
    return folder


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tunesmith.cli.main", *words],
        cwd=folder,
        env={**os.environ, "TUNESMITH_DB": f"sqlite:///{folder / 'tuned.db'}"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def result(place: Path) -> dict[str, Any]:
    return dict(json.loads((place / "result.json").read_text()))


def test_the_search_finds_a_verified_kernel(result: dict[str, Any]) -> None:
    assert result["best"]["time_s"] > 0
    assert result["statuses"]["ok"] >= 1
    assert "untuned" in result["baselines"]


def test_best_answers_with_the_same_record(place: Path, result: dict[str, Any]) -> None:
    found = answer(command(place, "best", "small.py", "--json"))
    assert (found["record"], found["match"]) == (result["best"]["record"], "exact")


def test_a_second_search_measures_nothing_again(place: Path, result: dict[str, Any]) -> None:
    again = answer(command(place, "tune", "small.py", "--trials", "6", "--json"))
    records = answer(command(place, "query", "--workload", "small.py", "--limit", "100", "--json"))["records"]
    assert again["best"]["record"] == result["best"]["record"]
    assert len({r["schedule_hash"] for r in records}) == len(records)


@pytest.mark.parametrize("level", ["program", "schedule", "nest", "llvm", "asm", "record"])
def test_show_prints_every_level(place: Path, level: str) -> None:
    done = command(place, "show", "small.py", "--level", level)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_apply_writes_a_library_that_computes(place: Path) -> None:
    files = answer(command(place, "apply", "small.py", "-o", "build", "--json"))["files"]
    paths = [place / f["path"] for f in files]
    assert [p.name for p in paths] == ["libsmall.so", "small.h"]
    assert "small" in paths[1].read_text()
    assert ctypes.CDLL(str(paths[0])).small is not None


def test_doctor_tunes_too(place: Path) -> None:
    done = command(place, "doctor", "--json")
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert found["self-test"]["level"] == "ok", found["self-test"]
    assert done.returncode == 0


def test_serve_says_in_json_where_it_listens(tmp_path: Path) -> None:
    words = ["serve", "--port", "0", "--json", "--db", f"sqlite:///{tmp_path / 'serve.db'}"]
    with subprocess.Popen(
        [sys.executable, "-m", "tunesmith.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()
    assert url.startswith("http://127.0.0.1:") and not url.endswith(":0")


OTHER_SHAPE = PROGRAM.replace("[32,", "[28,")


def test_a_shape_never_tuned_is_answered_from_its_neighbours(place: Path, result: dict[str, Any]) -> None:
    (place / "other.py").write_text(OTHER_SHAPE)
    assert command(place, "best", "other.py").returncode == 3
    found = answer(command(place, "best", "other.py", "--near", "--json"))
    assert (found["match"], found["record"]) == ("near", None)
    assert found["estimate"]["records"] == [result["best"]["record"]] == [found["estimate"]["source"]]
    assert found["estimate"]["time_s"] > 0 and 0 < found["estimate"]["loss"] < 0.1
    text = command(place, "best", "other.py", "--near").stdout
    assert "(an estimate: this shape was never tuned)" in text
    assert f"from small(32×48, 48×40, 40), record {result['best']['record']}" in text
    assert "basis: time: 1 record, measured over predicted" in text


def test_applying_what_neighbours_suggest_verifies_it_first(place: Path) -> None:
    (place / "third.py").write_text(OTHER_SHAPE.replace("[28,", "[36,"))
    assert command(place, "apply", "third.py", "-o", "third").returncode == 3
    written = answer(command(place, "apply", "third.py", "--near", "-o", "third", "--json"))
    assert {Path(f["path"]).name for f in written["files"]} == {"libsmall.so", "small.h"}
    found = answer(command(place, "best", "third.py", "--json"))
    assert (found["record"], found["match"]) == (written["record"], "exact")


def test_nothing_near_is_not_found(place: Path) -> None:
    done = command(place, "best", "softmax(8,16)", "--near")
    assert done.returncode == 3
    assert "nothing is known of other shapes of softmax" in done.stderr and "tunesmith tune" in done.stderr
    by_hash = command(place, "best", "ffffffffffffffff", "--near")
    assert by_hash.returncode == 3 and "--near needs the program itself" in by_hash.stderr
