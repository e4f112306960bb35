"""`tunesmith db`."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))  # for real_records

import real_records as real

from tunesmith.db import open_store

HASH = real.product().hash


@pytest.fixture
def filled(database: str) -> str:
    with open_store(database) as store:
        records = real.variety()
        store.add_all(records)
        store.set_race({records[0].id: 0.02, records[1].id: 0.025})
    return database


def test_current(run: Any, filled: str, tmp_path: Path) -> None:
    done = run("db", "current", "--db", filled, "--json")
    assert done.code == 0 and json.loads(done.out)["counts"]["record"] == 12
    absent = run("db", "current", "--db", str(tmp_path / "no.db"), "--json")
    assert json.loads(absent.out)["state"] == "absent"
    text = run("db", "current", "--db", filled).out
    assert "schema" in text and "workload" in text and "newest known" in text


def test_upgrade(run: Any, database: str) -> None:
    assert json.loads(run("db", "upgrade", "--db", database, "--json").out)["before"] is None
    assert "the newest" in run("db", "upgrade", "--db", database).out


def test_backup_and_restore(run: Any, filled: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.db")
    assert json.loads(run("db", "backup", copy, "--db", filled, "--json").out)["size_bytes"] > 10_000
    assert run("db", "backup", copy, "--db", filled).code == 1
    assert run("db", "backup", copy, "--db", filled, "--force").code == 0
    refused = run("db", "restore", copy, "--db", filled)
    assert refused.code == 1 and "--force" in refused.err
    assert "12 records" in run("db", "restore", copy, "--db", filled, "--force").out
    assert run("db", "restore", str(tmp_path / "none.db"), "--db", filled).code == 3


def test_prune(run: Any, filled: str) -> None:
    done = run("db", "prune", "--older-than", "90d", "--db", filled, "--json", "--dry-run")
    assert json.loads(done.out) == {
        "records": 0, "failed": 0, "kept": 0, "events": 0, "requests": 0, "usage": 0, "dry_run": True
    }  # fmt: skip
    assert "removed: 0" in run("db", "prune", "--older-than", "90d", "--db", filled).out
    assert run("db", "prune", "--older-than", "soon", "--db", filled).code == 2
    assert run("db", "prune", "--db", filled).code == 2, "the age is never guessed"


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz"])
def test_export_and_import(run: Any, filled: str, tmp_path: Path, name: str) -> None:
    file, other = tmp_path / name, str(tmp_path / "other.db")
    assert json.loads(run("db", "export", str(file), "--db", filled, "--json").out)["records"] == 12
    data = gzip.decompress(file.read_bytes()) if name.endswith("gz") else file.read_bytes()
    head, *lines = map(json.loads, data.splitlines())
    assert head == {"format": "tunesmith-records", "version": 1} and len(lines) == 12
    done = json.loads(run("db", "import", str(file), "--db", other, "--json").out)
    assert (done["new"], done["refused"], done["races"]) == (12, 0, 1)
    assert "12 known before" in run("db", "import", str(file), "--db", other).out
    file.write_bytes(file.read_bytes()[:-200])
    torn = run("db", "import", str(file), "--db", str(tmp_path / "third.db"), "--json")
    assert torn.code == 1 and json.loads(torn.out)["refused"] == 1
    assert not list(tmp_path.glob(".*.part*"))


def test_filters(run: Any, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    run("db", "export", str(file), "--db", filled, "--workload", HASH, "--status", "wrong_answer")
    assert len(file.read_text().splitlines()) == 3
    assert run("db", "export", str(file), "--db", filled, "--status", "fine").code == 2


def test_a_pipe(filled: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    words = [sys.executable, "-m", "tunesmith.cli.main", "db"]
    with subprocess.Popen([*words, "export", "-", "--db", filled], stdout=subprocess.PIPE) as source:
        done = subprocess.run(
            [*words, "import", "-", "--db", other, "--json"], stdin=source.stdout, capture_output=True
        )
    assert source.returncode == 0 and json.loads(done.stdout)["new"] == 12


def test_nothing_is_left_of_a_failed_export(run: Any, tmp_path: Path, filled: str) -> None:
    file = tmp_path / "no such folder" / "x.jsonl"
    assert run("db", "export", str(file), "--db", filled).code == 1
    assert run("db", "import", str(tmp_path), "--db", filled).code == 1
    assert run("db", "import", str(tmp_path / "missing"), "--db", filled).code in (1, 3)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


LOGS = Path(__file__).parents[1] / "tuning" / "logs"


def test_logs_of_tvm(run: Any, database: str) -> None:
    done = run("db", "import", str(LOGS / "metaschedule"), "--db", database, "--from", "metaschedule")
    assert done.code == 0 and "3 observations (2 exact, 1 nearest)" in done.out
    assert "× failed there" in done.out
    told = json.loads(run("db", "import", str(LOGS / "ansor.json"), "--db", database, "--json").out)
    assert (told["observations"], told["nearest"], told["new"]) == (5, 2, 5)
    assert run("best", "matmul(256,256,256)", "--db", database).code == 3
