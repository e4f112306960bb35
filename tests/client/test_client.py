"""The client against a real server process."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tunesmith
from tunesmith.client import Client, JobEnded, ServiceError, Unreachable

Serve = Callable[..., Any]
TEXT = "def dense(x: f32[64, 32], w: f32[32, 64]):\n    return x @ w"


def test_a_job_from_end_to_end(serve: Serve) -> None:
    with tunesmith.connect(serve().url) as client:
        events = []
        job = client.tune("matmul(64,64,64)", trials=8, on_event=events.append)
        assert job["state"] == "succeeded" and job["progress"]["trials"] == 8 and job["result"]
        ids = [e.id for e in events]
        assert ids == sorted(set(ids)) and events[0].data["state"] == "queued" and events[-1].is_last
        assert {e.kind for e in events} >= {"state", "best"}
        best = client.best("matmul(64,64,64)")
        assert best is not None and best["record"]["id"] == job["progress"]["best"]["record"]
        assert [r["id"] for r in client.records(job=job["id"], limit=3)] == [
            r["id"] for r in client.records(job=job["id"])
        ]
        assert client.record(best["record"]["id"])["workload"]["hash"] == job["workload"]
        assert client.best(job["workload"]) == best and client.best("matmul(3,5,7)") is None
        assert client.artifact(best["record"]["id"], "llvm")
        assert [j["id"] for j in client.jobs(state="succeeded")] == [job["id"]]
        assert next(client.workloads())["hash"] == job["workload"] and next(client.targets())["cpu"]


@pytest.mark.parametrize("source", [TEXT, tunesmith.parse(TEXT), tunesmith.ops.softmax(16, 32)])
def test_programs_and_texts(serve: Serve, source: Any) -> None:
    with tunesmith.connect(serve().url) as client:
        job = client.submit(source, trials=1, seed=7, priority=3)
        program = tunesmith.parse(source) if isinstance(source, str) else source
        assert job["workload"] == tunesmith.ir.workload_hash(program) and job["priority"] == 3
        assert client.best(source) is None or client.best(source)["record"]


def test_verbs(serve: Serve) -> None:
    with tunesmith.connect(serve(0.2).url) as client:
        job = client.submit("matmul(64,64,64)", trials=1000)["id"]
        client.pause(job)
        for event in client.watch(job):
            if event.data.get("state") == "paused":
                break
        assert client.job(job)["state"] == "paused"
        client.resume(job)
        client.stop(job)
        assert client.wait(job)["state"] == "stopped"
        other = client.submit_many([("matmul(64,64,64)", 2.0), TEXT], trials=1000)["id"]
        assert [t["weight"] for t in client.tasks(other)] == [2.0, 1.0]
        client.cancel(other)
        with pytest.raises(JobEnded, match="cancelled"):
            client.wait(other)
        with pytest.raises(ServiceError) as refused:
            client.resume(other)
        assert refused.value.status == 409


def test_watching_survives_a_killed_server(serve: Serve) -> None:
    server = serve(0.05)
    with tunesmith.connect(server.url) as client:
        job = client.submit("matmul(64,64,64)", trials=40)["id"]
        seen: list[Any] = []

        def follow() -> None:
            seen.extend(client.watch(job))

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        while client.job(job)["progress"]["measured"] < 5:
            pass
        server.kill()
        server.start()
        follower.join(60)
        assert not follower.is_alive()
        ids = [e.id for e in seen]
        assert ids == sorted(set(ids)) and seen[-1].data["state"] == "succeeded"
        assert client.job(job)["progress"]["measured"] == 40


def test_what_is_refused(serve: Serve) -> None:
    with tunesmith.connect(serve().url) as client:
        with pytest.raises(ServiceError) as bad:
            client.submit("def f(x: f32[4]):\n    return y")
        assert bad.value.status == 422 and bad.value.line == 2 and bad.value.slug == "invalid-program"
        with pytest.raises(ServiceError) as missing:
            client.job("00000000-0000-7000-8000-000000000000")
        assert missing.value.status == 404
        with pytest.raises(ServiceError):
            list(client.watch("../../livez"))


def test_nobody_there(serve: Serve) -> None:
    server = serve()
    server.kill()
    with tunesmith.connect(server.url) as client, pytest.raises(Unreachable, match=server.url):
        client.job("x")


@pytest.mark.parametrize(
    "url", ["", "localhost:8700", "ftp://x", "http://", "http://me:secret@host", "http://h/?a"]
)
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ValueError) as error:
        tunesmith.connect(url)
    assert "secret" not in str(error.value) or "me:secret" not in url


def test_the_key_is_shown_by_nothing(serve: Serve) -> None:
    client: Client = tunesmith.connect(serve().url, key="ts_very-secret")
    assert "secret" not in repr(client)
    with client, pytest.raises(ServiceError) as refused:
        client.job("x")
    assert refused.value.status == 401 and "secret" not in str(refused.value)
    with pytest.raises(ValueError) as broken:
        tunesmith.connect("http://localhost", key="ts_secret\r\nX: y")
    assert "secret" not in str(broken.value)


def test_importing_it_is_cheap() -> None:
    heavy = "import sys, tunesmith.client; print({'llvmlite', 'sqlalchemy', 'xgboost'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
