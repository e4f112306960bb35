"""The command line against a real server process."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunesmith.cli.service import Service
from tunesmith.client import ClientError, connect
from tunesmith.client.documents import record_of
from tunesmith.frontend import operator
from tunesmith.ir import workload_hash
from tunesmith.records import Measurement, Peaks, Protocol, Status, Target, new_id, utc_now
from tunesmith.tuning.guess import guess
from tunesmith.tuning.workload import workload_of

Serve = Callable[..., Any]


def run(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tunesmith.cli.main", *words]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TUNESMITH_")}
    return subprocess.run(command, capture_output=True, text=True, env=clean | env, timeout=60)


ELSEWHERE = Target(
    triple="x86_64-unknown-linux-gnu", cpu="sapphirerapids", features="+avx2,+avx512f,+fma", model="Else",
    cores=2, threads=1, l1d_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=100 << 20, line_bytes=64,
    vector_bytes=64, vector_registers=32, peaks=Peaks(150.0, 75.0, 400.0, 200.0, 30.0, 12.0),
)  # fmt: skip


def hand_in(url: str, source: str) -> str:
    """A record of a schedule that works, as if measured on another machine; its id."""
    workload, form = workload_of(operator(source))
    schedule, _ = guess(form, ELSEWHERE)
    document = {
        "id": new_id(),
        "workload": {"program": workload.program},
        "target": ELSEWHERE.to_json(),
        "schedule": schedule.to_json(),
        "measurement": Measurement(Status.OK, (1e-3,) * 4).to_json(),
        "protocol": Protocol().to_json(),
        "created_at": utc_now().isoformat(),
    }
    with connect(url) as client:
        assert client.upload([document])["new"] == 1
    return str(document["id"])


def test_tune_there_and_look_after_it(serve: Serve) -> None:
    url = serve().url
    done = run("tune", "matmul(64,64,64)", "--trials", "8", "--url", url)
    assert done.returncode == 0 and "succeeded, 8/8 trials" in done.stdout and "best" in done.stdout
    assert "queued" in done.stderr and "succeeded" in done.stderr
    words = ("matmul(32,64,64)", "softmax(8,16)", "--trials", "4", "--detach", "--json")
    sent = run("tune", *words, TUNESMITH_URL=url)
    job = json.loads(sent.stdout)
    watched = run("jobs", "watch", job["id"], "--json", TUNESMITH_URL=url)
    assert json.loads(watched.stdout)["state"] == "succeeded"
    listed = run("jobs", "ls", TUNESMITH_URL=url)
    assert listed.returncode == 0 and job["id"] in listed.stdout and listed.stdout.count("succeeded") == 2
    shown = run("jobs", "show", job["id"], TUNESMITH_URL=url)
    assert shown.returncode == 0 and "4/4 trials" in shown.stdout


def test_verbs(serve: Serve) -> None:
    url = serve(0.2).url
    job = json.loads(run("tune", "matmul(64,64,64)", "--detach", "--json", "--url", url).stdout)["id"]
    for verb in ("pause", "resume", "cancel"):
        assert run("jobs", verb, job, "--url", url).returncode == 0
    ended = run("jobs", "watch", job, "--url", url)
    assert ended.returncode == 1 and "cancelled" in ended.stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("jobs", "ls"), 2, "TUNESMITH_URL"),
        (("jobs", "ls", "--url", "nonsense"), 2, "no URL"),
        (("tune", "matmul(4,5,6,7,8)", "--url", "{url}"), 2, "matmul"),
        (("tune", "matmul(4,4,4)", "--url", "{url}", "--db", "sqlite:///x"), 2, "--db"),
        (("jobs", "show", "00000000-0000-7000-8000-000000000000", "--url", "{url}"), 3, "no job"),
        (("jobs", "ls", "--url", "http://127.0.0.1:9"), 1, "no answer"),
        (("jobs", "watch", "x", "--url", "http://127.0.0.1:9"), 1, ": Connection refused\n"),
        (("jobs", "ls", "--url", "{url}/elsewhere"), 3, "openapi.json"),
        (("jobs", "ls", "--urls", "x"), 2, "did you mean --url?\nusage: tunesmith jobs ls"),
        (("best", "matmul(3,4,5)", "--url", "{url}"), 3, "tunesmith tune 'matmul(3,4,5)' --url http"),
        (("best", "matmul(3,4,5)", "--near", "--url", "{url}"), 3, "nothing of other shapes"),
        (("best", "0123456789abcdef", "--url", "{url}"), 3, "tunesmith query --url http"),
        (("apply", "00000000-0000-7000-8000-000000000000", "--url", "{url}"), 3, "no record"),
        (("best", "matmul(3,4,5)", "--url", "{url}", "--db", "sqlite:///x"), 2, "not both"),
        (("tune", "matmul(3,4,5)", "--trials", "1000000", "--url", "{url}"), 2, "or equal to 100000\n"),
    ],
)
def test_what_is_refused(server: Any, words: tuple[str, ...], code: int, text: str) -> None:
    done = run(*(w.format(url=server.url) for w in words))
    assert done.returncode == code and text in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_what_a_service_knows(serve: Serve, tmp_path: Path) -> None:
    """The same words and answers as with a database here; kernels are built here, and run."""
    url = serve().url
    record = hand_in(url, "matmul(24,32,40)")
    best = json.loads(run("best", "matmul(24,32,40)", "--json", TUNESMITH_URL=url).stdout)
    assert (best["match"], best["record"], best["workload"]["name"]) == ("same_arch", record, "matmul")
    told = run("best", "matmul(24,32,40)", "--url", url)
    assert f"tunesmith apply 'matmul(24,32,40)' --url {url} -o DIR" in told.stdout
    by_hash = run("best", best["workload"]["hash"], "--json", "--url", url)
    assert json.loads(by_hash.stdout) == best
    listed = run("query", "--workload", "matmul(24,32,40)", "--order", "time", "--json", "--url", url)
    records = json.loads(listed.stdout)["records"]
    assert records[0]["id"] == best["record"] and set(records[0]) >= {"gflops", "race_s", "created_at"}
    paged = run("query", "--workload", "matmul(24,32,40)", "--limit", "3", "--json", "--url", url)
    assert [r["id"] for r in json.loads(paged.stdout)["records"]] == [record]
    assert "matmul" in run("query", "--url", url).stdout
    shown = run("show", best["record"], "--level", "program", "--url", url)
    assert shown.stdout.startswith("def matmul(")
    with connect(url) as client:
        kernel = client.load("matmul(24,32,40)")
        assert kernel.record is not None and kernel.record.id == record
    applied = run("apply", "matmul(24,32,40)", "-o", str(tmp_path), "--json", "--url", url)
    assert applied.returncode == 0, applied.stderr
    assert json.loads(applied.stdout)["record"] == best["record"]
    library = ctypes.CDLL(str(tmp_path / "libmatmul.so"))
    a, b = np.random.default_rng(0).random((2, 40, 40), dtype=np.float32)
    a, b, c = a[:24].copy(), b[:, :32].copy(), np.empty((24, 32), np.float32)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
    assert library.matmul(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c))) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_a_suggestion_of_a_service(serve: Serve, tmp_path: Path) -> None:
    url = serve().url
    hand_in(url, "matmul(24,32,40)")
    words = ("matmul(24,32,48)", "--near", "--url", url)
    near = json.loads(run("best", *words, "--json").stdout)
    assert (near["match"], near["record"]) == ("near", None)
    assert near["estimate"]["time_s"] > 0 and near["estimate"]["records"] == [near["estimate"]["source"]]
    told = run("best", *words).stdout
    assert "from matmul(24×40, 40×32) on " in told and f"--near --url {url} -o DIR" in told
    applied = run("apply", *words, "-o", str(tmp_path))
    assert applied.returncode == 0 and "verified here" in applied.stdout, applied.stderr
    assert (tmp_path / "libmatmul.so").exists()


def test_an_answer_is_not_trusted(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another program's record, nor figures that do not follow from the program, nor nonsense."""
    url = serve().url
    hand_in(url, "matmul(24,32,40)")
    with connect(url) as client:
        answer = client.best("matmul(24,32,40)")
        assert answer is not None
        document = answer["record"]
        lied = {**document, "workload": {**document["workload"], "flops": 10**15, "hash": "0" * 32}}
        assert record_of(lied).workload.flops == 2 * 24 * 32 * 40
        disguised = {**document["target"], "model": "\x1b[2J"}
        for broken in ({}, {**document, "target": {}}, {**document, "target": disguised}):
            with pytest.raises(ClientError, match="no record"):
                record_of(broken)
        monkeypatch.setattr(client, "best", lambda *_, **__: answer)
        other = workload_hash(operator("matmul(24,32,41)"))
        with pytest.raises(ClientError, match="another program"):
            Service(client, []).best(other, record_of(document).target)


def test_to_stop_watching_is_not_to_stop_the_job(serve: Serve) -> None:
    url = serve(0.2).url
    job = json.loads(run("tune", "matmul(64,64,64)", "--detach", "--json", "--url", url).stdout)["id"]
    command = [sys.executable, "-m", "tunesmith.cli.main", "jobs", "watch", job, "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        watching.stderr.readline()
        watching.send_signal(signal.SIGINT)
        _, told = watching.communicate(timeout=30)
    assert watching.returncode == 130 and "the job goes on" in told and "--fresh" not in told
    assert json.loads(run("jobs", "show", job, "--json", "--url", url).stdout)["state"] == "running"
