"""The command line against a real server process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Serve = Callable[..., Any]


def run(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tunesmith.cli.main", *words]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TUNESMITH_")}
    return subprocess.run(command, capture_output=True, text=True, env=clean | env, timeout=60)


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
        (("jobs", "show", "00000000-0000-7000-8000-000000000000", "--url", "{url}"), 3, "no such thing"),
        (("jobs", "ls", "--url", "http://127.0.0.1:9"), 1, "no answer"),
    ],
)
def test_what_is_refused(serve: Serve, words: tuple[str, ...], code: int, text: str) -> None:
    url = serve().url if any("{url}" in w for w in words) else ""
    done = run(*(w.format(url=url) for w in words))
    assert done.returncode == code and text in done.stderr and "Traceback" not in done.stderr, done.stderr
