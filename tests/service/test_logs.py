"""Log lines: one form for all, ids of what they are about, no forged lines, no secrets."""

import json
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import server, until

from tunesmith.db import Scope, open_store
from tunesmith.service.logs import JsonLines, TextLines, about, with_fields

KEY = "tsk_" + "Ab3_" * 11


def line(message: str, *args: Any, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("tunesmith.x", logging.WARNING, __file__, 1, message, args, **more)


def test_text() -> None:
    with about(job_id="J1"), about(record_id="R1"):
        text = TextLines().format(line("trial %d", 5, exc_info=None))
    assert text[23:] == "Z warning tunesmith.x: trial 5 [job_id=J1 record_id=R1]"
    assert TextLines().format(line("later", exc_info=None)).endswith("tunesmith.x: later")


def test_json() -> None:
    record = line("%s", "é\u2028\n\x1b[31m", exc_info=None)
    record.__dict__ |= with_fields(status=200)
    with about(request_id="Q1"):
        text = JsonLines().format(record)
    assert text.isascii() and "\n" not in text
    found = json.loads(text)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning",
        "logger": "tunesmith.x",
        "message": "é\u2028\n\x1b[31m",
        "request_id": "Q1",
        "status": 200,
    }


def test_nobody_forges_lines() -> None:
    try:
        raise ValueError("x\n2026-01-01T00:00:00.000Z error   forged: line\x1b[2J")
    except ValueError:
        record = line("a\nb\x1b[31m\u202ec", exc_info=sys.exc_info())
    first, *below = TextLines().format(record).split("\n")
    assert first.endswith(r"a\nb\x1b[31m\u202ec")
    assert all(text.startswith("    ") and text.isprintable() for text in below)


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_secrets_are_blotted_out(form: logging.Formatter) -> None:
    for secret in (f"key {KEY}", f"Authorization: Bearer {KEY}", "'authorization': 'bearer hush'",
                   "postgresql://me:hush@db/x", "sees postgresql+psycopg://me:hu/sh@db:5/x now"):  # fmt: skip
        try:
            raise ValueError(secret)
        except ValueError:
            text = form.format(line("%s", secret, exc_info=sys.exc_info()))
        assert KEY[12:] not in text and "hush" not in text and "hu/sh" not in text
    assert "Bearer realm=" in form.format(line('Bearer realm="tunesmith"', exc_info=None))


def test_a_server_writes_json_with_ids_and_no_secret(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/test.db"
    with open_store(url) as store:
        _, key = store.keys.create("test", (Scope.ADMIN,))
    with server(url, log_format="json", log_level="debug", require_key=1) as (process, http):
        mine = {"Authorization": f"Bearer {key}"}
        wanted = {"operator": "matmul(8,8,8)", "trials": 3}
        submitted = http.post("/v1/jobs", json=wanted, headers=mine)
        job = submitted.json()["id"]
        until(lambda: http.get(f"/v1/jobs/{job}", headers=mine).json(), lambda j: j["state"] == "succeeded")
        other = {"name": "other", "scopes": ["read"]}
        made = http.post("/v1/keys", json=other, headers=mine).json()["secret"]
        wrong = http.get(f"/v1/keys/{made}?key={made}", headers={"Authorization": f"Bearer {KEY}"})
        assert wrong.status_code == 401
        process.end(signal.SIGTERM)
    lines = [json.loads(text) for text in process.lines]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    loggers = {line["logger"] for line in lines}
    assert {"uvicorn.error", "tunesmith.access", "tunesmith.service.run"} <= loggers
    accesses = [line for line in lines if line["logger"] == "tunesmith.access"]
    (access,) = (a for a in accesses if a["request_id"] == submitted.headers["x-request-id"])
    assert (access["method"], access["route"], access["status"]) == ("POST", "/v1/jobs", 202)
    (refused,) = (a for a in accesses if a["request_id"] == wrong.json()["trace_id"])
    assert refused["status"] == 401
    ended = [line for line in lines if line["message"].endswith("succeeded")]
    assert [line["job_id"] for line in ended] == [job]
    assert len({line["record_id"] for line in lines if "record_id" in line and line["job_id"] == job}) == 3
    text = "\n".join(process.lines)
    assert all(secret[12:] not in text for secret in (key, made, KEY))
