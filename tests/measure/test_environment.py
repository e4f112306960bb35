"""No worker is given a secret of its parent's environment; each is asked what it really has."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tunesmith.measure import BuildPool
from tunesmith.measure.environment import worker_environment
from tunesmith.measure.process import WorkerProcess, WorkerSpec
from tunesmith.records import Protocol

SECRETS = {
    "TUNESMITH_KEY": "tsk_planted", "TUNESMITH_DB": "postgresql://u:planted@h/d", "PGPASSWORD": "planted",
    "AWS_SECRET_ACCESS_KEY": "planted", "DATABASE_URL": "planted", "GITHUB_TOKEN": "planted",
}  # fmt: skip
linux = pytest.mark.skipif(sys.platform != "linux", reason="environments of processes are read from /proc")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@linux
@pytest.mark.usefixtures("planted")
def test_build_workers_have_no_secrets(brisk: Protocol, collect: Callable[..., list[Any]]) -> None:
    with BuildPool(1, brisk, builder="stand_ins:build") as pool:
        pool.submit(0, {"n": 100}, {}, {})
        collect(pool, 1)
        assert pool.crew.pids
        for pid in pool.crew.pids:
            assert b"planted" not in environment_of(pid)
            assert b"PATH=" in environment_of(pid)


@linux
@pytest.mark.usefixtures("planted")
def test_what_a_worker_is_told_arrives() -> None:
    spec = WorkerSpec("build", "stand_ins:build", (), environment={"OMP_NUM_THREADS": "3"})
    worker = WorkerProcess(spec)
    try:
        assert b"OMP_NUM_THREADS=3" in environment_of(worker.pid)
        assert b"planted" not in environment_of(worker.pid)
    finally:
        worker.end()


@pytest.mark.usefixtures("planted")
def test_only_what_is_named_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    kept = worker_environment(OMP_PLACES="{1}")
    assert kept["GOMP_SPINCOUNT"] == "7" and kept["OMP_PLACES"] == "{1}"
    assert kept["PATH"] == os.environ["PATH"]
    assert not SECRETS.keys() & kept.keys()
