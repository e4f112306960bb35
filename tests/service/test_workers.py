"""Workers without HTTP, as processes of their own, beside each other and beside a server without tuner."""

import itertools
import signal
import socket
import time
from pathlib import Path

import pytest
from processes import running, server, until

from tunesmith.db import JobSpec, JobState, Store, open_store
from tunesmith.frontend import operator
from tunesmith.tuning import workload_of

_rows = itertools.count(8)  # each job has a program of its own


def queued(store: Store, n: int, trials: int = 3) -> list[str]:
    sources = [f"matmul({next(_rows)},8,8)" for _ in range(n)]
    return [
        store.jobs.create(
            JobSpec(workload_of(operator(text))[0], {"operator": text}, {"trials": trials}, trials)
        )[0].id
        for text in sources
    ]


def states(store: Store, jobs: list[str]) -> set[JobState]:
    return {store.jobs.get(job).state for job in jobs}


def test_workers_share_the_queue_and_no_job_is_taken_twice(any_url: str) -> None:
    with open_store(any_url) as store:
        with running(any_url) as one, running(any_url) as other:
            for worker in (one, other):
                worker.says("working on jobs")
            jobs = queued(store, 16)
            until(lambda: states(store, jobs), lambda found: found == {JobState.SUCCEEDED})
            assert (one.end(signal.SIGTERM), other.end(signal.SIGTERM)) == (0, 0)
        for job in jobs:
            found = store.jobs.get(job)
            assert (found.attempt, found.n_trials, found.lease_owner) == (1, 3, None)
            assert sorted(r.trial for r in store.records(job=job).items) == [0, 1, 2]
    taken = [{line.split("job ")[1][:36] for line in w.lines if "attempt 1" in line} for w in (one, other)]
    assert not taken[0] & taken[1] and taken[0] | taken[1] == set(jobs)
    assert all(taken), "both had their share"


def test_a_worker_hands_its_job_back_and_another_goes_on(any_url: str) -> None:
    with open_store(any_url) as store:
        (job,) = queued(store, 1, trials=60)
        with running(any_url, trial_s=0.02) as worker:
            until(lambda: store.jobs.get(job).n_trials, lambda n: n >= 5)
            assert worker.end(signal.SIGTERM) == 0
        left = store.jobs.get(job)
        assert (left.state, left.lease_owner, left.lease_until) == (JobState.QUEUED, None, None)
        with running(any_url, trial_s=0.0):
            done = until(lambda: store.jobs.get(job), lambda found: found.done)
        assert (done.state, done.n_trials, done.attempt) == (JobState.SUCCEEDED, 60, 2)


def test_a_tuner_that_hangs_is_cut_off(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    with open_store(url) as store:
        (job,) = queued(store, 1)
        with running(url, trial_s=60, stop_s=0.2) as worker:
            until(lambda: store.jobs.get(job).state, lambda state: state is JobState.RUNNING)
            assert worker.end(signal.SIGTERM) == 0
        left = store.jobs.get(job)
        assert (left.state, left.lease_owner) == (JobState.QUEUED, None)


def test_the_second_signal_does_not_wait(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    with open_store(url) as store:
        (job,) = queued(store, 1)
        with running(url, trial_s=60) as worker:
            until(lambda: store.jobs.get(job).state, lambda state: state is JobState.RUNNING)
            worker.popen.send_signal(signal.SIGINT)
            time.sleep(0.3)
            assert worker.popen.poll() is None
            worker.popen.send_signal(signal.SIGINT)
            assert worker.popen.wait(5) == 130


def test_a_server_without_tuner_and_a_worker(any_url: str, tmp_path: Path) -> None:
    with server(any_url, run_jobs="") as (_, http):
        job = http.post("/v1/jobs", json={"operator": "matmul(64,64,64)", "trials": 20}).json()["id"]
        assert http.get("/readyz").status_code == 200
        assert http.get(f"/v1/jobs/{job}").json()["state"] == "queued"
        alive = tmp_path / "alive"
        with running(any_url, trial_s=0.2, alive_file=alive):
            until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["progress"]["measured"] >= 1)
            assert alive.exists()
            assert http.post(f"/v1/jobs/{job}:stop").status_code == 200
            stopped = until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["state"] == "stopped")
            assert 1 <= stopped["progress"]["measured"] < 20


def test_a_worker_without_database_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from tunesmith.cli.main import main

    assert main(["worker", "--db", f"sqlite:///{tmp_path}/nowhere/test.db"]) == 1
    assert "does not exist. Create it" in capfd.readouterr().err


@pytest.mark.parametrize("port", ["0", "none"], ids=["server", "worker"])
def test_the_service_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "manager"))
        manager.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "manager"))
        with running(f"sqlite:///{tmp_path}/test.db", port) as process:
            first = [manager.recv(100), manager.recv(100)]
            assert sorted(first) == [b"READY=1", b"WATCHDOG=1"]
            assert process.end(signal.SIGTERM) == 0
            assert manager.recv(100) == b"STOPPING=1"
