"""`tunesmith db` as a user types it."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_samples import TARGET, make_record

from tunesmith.cli.main import main
from tunesmith.db import open_store
from tunesmith.frontend import operator
from tunesmith.search.default import default_schedule
from tunesmith.tuning.workload import workload_of


@pytest.fixture
def made(tmp_path: Path) -> str:
    path = tmp_path / "made.db"
    with open_store(path) as store:
        workload, form = workload_of(operator("matmul(24,16,20)"))
        schedule = default_schedule(form, TARGET)
        record = make_record(workload=workload)
        store.add(replace(record, schedule=schedule.to_json(), schedule_hash=schedule.hash))
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["db", *words, "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_current_and_upgrade(made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "current", "--db", made)
    assert (found["state"], found["counts"]["record"]) == ("current", 1)
    assert said(capsys, "upgrade", "--db", made)["backup"] is None
    assert said(capsys, "upgrade", "--db", str(tmp_path / "new.db"))["from"] is None
    assert said(capsys, "current", "--db", str(tmp_path / "none.db"), code=1)["error"]


def test_backup_and_restore(made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy, other = str(tmp_path / "copy"), str(tmp_path / "other.db")
    said(capsys, "backup", copy, "--db", made)
    assert "--force" in said(capsys, "backup", copy, "--db", made, code=1)["error"]["message"]
    assert said(capsys, "restore", copy, "--db", other)["counts"]["record"] == 1
    assert "--force" in said(capsys, "restore", copy, "--db", other, code=1)["error"]["message"]


def test_export_and_import(made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(tmp_path / "other.db")
    for name in ("all.jsonl", "all.jsonl.gz"):
        assert said(capsys, "export", str(tmp_path / name), "--db", made)["records"] == 1
    packed = (tmp_path / "all.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "all.jsonl").read_bytes()
    assert main(["db", "import", str(tmp_path / "all.jsonl.gz"), "--db", other, "--trusted"]) == 0
    assert "1 records are new" in capsys.readouterr().out
    assert said(capsys, "import", str(tmp_path / "all.jsonl"), "--db", other)["known"] == 1
    (tmp_path / "bad.gz").write_bytes(packed[:-20])
    said(capsys, "import", str(tmp_path / "bad.gz"), "--db", other, code=1)
    said(capsys, "import", str(tmp_path / "nothing"), "--db", other, code=1)


def test_through_a_pipe(made: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tunesmith.cli.main", "db"]
    lines = subprocess.run([*command, "export", "-", "--db", made], stdout=-1, check=True, timeout=60).stdout
    other = str(tmp_path / "other.db")
    took = subprocess.run(
        [*command, "import", "-", "--db", other, "--json"], input=lines, stdout=-1, check=True, timeout=60
    )
    assert json.loads(took.stdout)["new"] == 1


def test_prune(made: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "prune", "--older-than", "1d", "--db", made)["records"] == 0
    for words in (["prune"], ["prune", "--older-than", "soon"], ["prune", "--older-than", "1y"], [], ["x"]):
        said(capsys, *words, code=2)
