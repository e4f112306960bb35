"""The service as people run it: a process of its own, asked over a socket, killed and started again."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import server, until

from tunesmith.db import DatabaseUnavailable, Store, open_store
from tunesmith.ir import TunesmithError
from tunesmith.service import Settings, Tools, serve
from tunesmith.service.server import listen


def test_killed_and_stopped_and_finished(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    with server(url) as (process, http):
        job = http.post("/v1/jobs", json={"operator": "matmul(64,64,64)", "trials": 60}).json()["id"]
        until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["progress"]["measured"] >= 5)
        process.kill()
    with open_store(url) as store:
        killed = store.jobs.get(job)
        assert killed.state == "running" and killed.n_trials >= 5
        assert len(records_of(store, job)) == killed.n_trials
    with server(url) as (process, http):
        goes_on = until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["attempt"] == 2)
        until(
            lambda: http.get(f"/v1/jobs/{job}").json(),
            lambda j: j["progress"]["measured"] > max(killed.n_trials, goes_on["progress"]["measured"]),
        )
        process.popen.send_signal(signal.SIGTERM)
        process.popen.wait(10)
        assert process.popen.returncode == 0
    with open_store(url) as store:
        stopped = store.jobs.get(job)
        assert (stopped.state, stopped.lease_owner) == ("queued", None)
        assert stopped.n_trials < 60
    with server(url) as (process, http):
        done = until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["state"] == "succeeded")
        assert done["progress"]["measured"] == 60
    with open_store(url) as store:
        assert sorted(records_of(store, job)) == list(range(60))


def test_the_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    with server(url, trial_s=60) as (process, http):
        job = http.post("/v1/jobs", json={"operator": "matmul(64,64,64)"}).json()["id"]
        until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["state"] == "running")
        process.popen.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.popen.wait(0.5)
        process.popen.send_signal(signal.SIGINT)
        assert process.popen.wait(5) == 130
    with open_store(url) as store:
        assert store.jobs.get(job).state == "running", "the next start finds its process dead"


def records_of(store: Store, job: str) -> list[int]:
    return [record.trial for record in store.records(job=job, limit=1000).items]


def no_tools() -> Tools:
    def unused(*_: Any, **__: Any) -> Any:
        raise AssertionError

    return Tools(unused, unused)


def test_what_keeps_it_from_starting(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable):
        serve(Settings(f"sqlite:///{tmp_path}/nowhere/test.db", no_tools()), port=0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            TunesmithError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            serve(Settings(f"sqlite:///{tmp_path}/test.db", no_tools()), port=port)


def test_no_part_of_an_answer_waits_for_the_one_before() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_body_too_large_is_answered_before_the_connection_closes(tmp_path: Path) -> None:
    with server(f"sqlite:///{tmp_path}/test.db") as (_, http):
        answer = http.post("/v1/jobs", content=b'{"program": "' + b"x" * 6_000_000 + b'"}')
        assert (answer.status_code, answer.json()["status"]) == (413, 413)


def test_an_end_in_good_order_with_streams_requests_and_a_job(tmp_path: Path) -> None:
    """Streams end, what is asked is answered or dropped, the job goes back to the queue: in bounded time."""
    url = f"sqlite:///{tmp_path}/test.db"
    with server(url, trial_s=0.2) as (process, http):
        job = http.post("/v1/jobs", json={"operator": "matmul(64,64,64)", "trials": 500}).json()["id"]
        until(lambda: http.get(f"/v1/jobs/{job}").json(), lambda j: j["state"] == "running")
        with socket.create_connection(("127.0.0.1", http.base_url.port or 0)) as half:
            half.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            with http.stream("GET", f"/v1/jobs/{job}/events") as stream:
                texts = stream.iter_text()
                assert "retry" in next(texts)
                began = time.monotonic()
                process.popen.send_signal(signal.SIGTERM)
                assert "state" in "".join(texts), "the stream ends, and its client comes back later"
            process.popen.wait(20)
        assert process.popen.returncode == 0 and time.monotonic() - began < 15
    with open_store(url) as store:
        left = store.jobs.get(job)
        assert (left.state, left.lease_owner) == ("queued", None)


def test_standard_output_is_for_the_address_alone(tmp_path: Path) -> None:
    """Whoever started the server reads one line of it; more of them would fill the pipe, and block."""
    command = [sys.executable, "-m", "tunesmith.cli.main", "serve", "--port", "0", "--json"]
    with subprocess.Popen([*command, "--db", str(tmp_path / "a.db")], stdout=-1, stderr=-3) as process:
        try:
            assert process.stdout
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url, timeout=10) as http:
                assert all(http.get("/livez").status_code == 200 for _ in range(20))
            process.terminate()
            assert process.stdout.read() == b""
            process.wait(20)
        finally:
            process.kill()
