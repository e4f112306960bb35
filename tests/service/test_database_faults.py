"""Databases that fail under a running server with a running job: whoever asks is told to come back, and the
job goes on by itself, with no trial lost and none measured twice."""

import contextlib
import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from own_postgres import OwnPostgres, needs_own_postgres, own_postgres
from processes import Process, server

from tunesmith.db import open_store

TRIALS = 60
BODY = {"operator": "matmul(64,64,64)", "trials": TRIALS, "fresh": True}
OTHER = {"operator": "matmul(8,8,8)", "trials": 4}


def submit(http: httpx.Client) -> str:
    """A job that has measured something, but is not done for long."""
    job = str(http.post("/v1/jobs", json=BODY).json()["id"])
    until(lambda: measured(http, job) >= 5)
    return job


def measured(http: httpx.Client, job: str) -> int:
    return int(http.get(f"/v1/jobs/{job}").json()["progress"]["measured"])


def until(holds: Callable[[], bool]) -> None:
    for _ in range(400):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def asks_to_come_back(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert "/" not in answer.json()["detail"], "what the database is called is nobody's business"


def ended_well(http: httpx.Client, job: str, url: str) -> None:
    until(lambda: http.get(f"/v1/jobs/{job}").json()["state"] not in ("queued", "running"))
    done = http.get(f"/v1/jobs/{job}").json()
    assert (done["state"], done["progress"]["measured"]) == ("succeeded", TRIALS)
    with open_store(url) as store:
        trials = [record.trial for record in store.records(job=job, limit=1000).items]
        assert sorted(trials) == list(range(TRIALS))


@contextlib.contextmanager
def listening(http: httpx.Client, job: str) -> Iterator[list[str]]:
    """What a listener hears from now on, who does not come back when the stream breaks."""
    heard: list[str] = []

    def listen() -> None:
        with http.stream("GET", f"/v1/jobs/{job}/events") as stream:
            for line in stream.iter_lines():
                heard.append(line)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    until(lambda: bool(heard))
    yield heard
    listener.join(30)
    assert not listener.is_alive()


# -- PostgreSQL ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[OwnPostgres]:
    with own_postgres() as postgres:
        yield postgres


@needs_own_postgres
def test_postgresql_goes_and_comes_back(postgres: OwnPostgres) -> None:
    with server(postgres.url, trial_s=0.02) as (_, http):
        job = submit(http)
        with listening(http, job) as heard:
            until(lambda: http.get("/readyz").status_code == 200)
            postgres.stop()
            for ask in (
                lambda: http.get("/readyz"),
                lambda: http.get(f"/v1/jobs/{job}"),
                lambda: http.get("/v1/best", params={"operator": "matmul(64,64,64)"}),
                lambda: http.get(f"/v1/jobs/{job}/events"),
                lambda: http.post("/v1/jobs", json=OTHER),
                lambda: http.get("/v1/jobs", headers={"Authorization": "Bearer tsk_" + "x" * 43}),
            ):
                asks_to_come_back(ask())
                assert http.get("/livez").status_code == 200
            postgres.start()
            until(lambda: http.get("/readyz").status_code == 200)
            ended_well(http, job, postgres.url)
        assert any('"succeeded"' in line for line in heard), "listeners hear of the end"


@needs_own_postgres
def test_postgresql_takes_no_changes_for_a_while(postgres: OwnPostgres) -> None:
    """A standby, for one, or a server whose operator fears for its disk."""
    with server(postgres.url, trial_s=0.02) as (_, http):
        job = submit(http)
        postgres.set("default_transaction_read_only", "on")
        until(lambda: http.post("/v1/jobs", json=OTHER).status_code == 503)
        asks_to_come_back(http.post("/v1/jobs", json=OTHER))
        assert http.get(f"/v1/jobs/{job}").json()["state"] == "running"
        postgres.set("default_transaction_read_only", "off")
        ended_well(http, job, postgres.url)


# -- SQLite -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def full_disk(folder: Path, process: Process) -> Iterator[None]:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    yield
    filler.unlink()


@contextlib.contextmanager
def no_larger_files(folder: Path, process: Process) -> Iterator[None]:
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    most = (folder / "test.db-wal").stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, before[1]))
    yield
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = os.getuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def no_room(folder: Path, fault: Callable[..., Any]) -> None:
    url = f"sqlite:///{folder}/test.db"
    with server(url, trial_s=0.02) as (process, http):
        job = submit(http)
        with fault(folder, process):
            until(lambda: http.post("/v1/jobs", json=OTHER).status_code == 503)
            asks_to_come_back(http.post("/v1/jobs", json=OTHER))
            asks_to_come_back(http.post(f"/v1/jobs/{job}:cancel"))
            for path in (f"/v1/jobs/{job}", "/v1/records", "/readyz", "/livez"):
                assert http.get(path).status_code == 200, "reading goes on"
            assert http.get(f"/v1/jobs/{job}").json()["state"] == "running"
        ended_well(http, job, url)


def test_a_full_disk(small_disk: Path) -> None:
    no_room(small_disk, full_disk)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of others are Linux's")
def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    no_room(tmp_path, no_larger_files)


def test_a_file_that_is_read_only_for_a_while(tmp_path: Path) -> None:
    """The server finds it so when it starts, and takes up work when it no longer is."""
    path = tmp_path / "test.db"
    url = f"sqlite:///{path}"
    with server(url, trial_s=0.02) as (process, http):
        job = submit(http)
        process.kill()
    path.chmod(0o444)
    # Root may write to anything, unless it gives that up.
    plain = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
    with server(url, trial_s=0.02, through=plain if os.getuid() == 0 else ()) as (_, http):
        asks_to_come_back(http.post("/v1/jobs", json=OTHER))
        assert http.get(f"/v1/jobs/{job}").json()["state"] == "running"
        path.chmod(0o644)
        ended_well(http, job, url)
