"""A runner for the command line in this process, and records to answer from."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tunesmith.cli.main import main
from tunesmith.records import Target

sys.path.insert(0, str(Path(__file__).parent))  # for cli_samples

from cli_samples import ADD, TARGET


@dataclasses.dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches the user's database, cache or model."""
    for name in ("DB", "URL", "KEY"):
        monkeypatch.delenv(f"TUNESMITH_{name}", raising=False)
    monkeypatch.delenv("TUNESMITH_MODEL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def known_target(monkeypatch: pytest.MonkeyPatch) -> Target:
    """The machine is a fixed one and nothing is measured."""
    monkeypatch.setattr("tunesmith.cli.lookup.detect_target", TARGET.with_threads)
    return TARGET


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> Outcome:
        capsys.readouterr()
        code = main(words)
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'records.db'}"


@pytest.fixture
def program_file(tmp_path: Path) -> Path:
    path = tmp_path / "add.py"
    path.write_text(ADD)
    return path
