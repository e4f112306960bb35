"""What attackers send: each is refused with a problem document, on either database, and nothing breaks."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import db_samples as samples
import pytest
from harness import Running, made_up_settings

from tunesmith.db import Scope
from tunesmith.db.pages import query_digest
from tunesmith.frontend import operator
from tunesmith.schedule import Schedule
from tunesmith.tuning import workload_of

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def service(any_url: str) -> Iterator[Any]:
    """With something of everything in it."""
    with Running(made_up_settings(any_url), run_jobs=False) as service:
        workload, _ = workload_of(operator("matmul(64,64,64)"))
        made = {"workload": workload, "schedule": Schedule().to_json(), "schedule_hash": Schedule().hash}
        for time_s in (1e-3, 2e-3, None):
            service.store.add(samples.record(time_s, **made))
        for seed in range(2):
            service.submit(seed=seed)
        service.store.keys.create("test", [Scope.READ])
        yield service


def refused(answer: Any, *statuses: int) -> None:
    assert answer.status_code in (statuses or (400, 404, 409, 413, 415, 422)), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code


def harmless(answer: Any) -> None:
    """Answered or refused, but not by an accident."""
    if answer.status_code >= 300:
        refused(answer)


# -- texts in the wrong place -------------------------------------------------------------------------------

TEXTS = [
    b"\0", b"a\0b", b"\n", b"\r\nX: y", b"\x1b[31m", b"\xff\xfe", b"\xed\xa0\x80", b"%", b"'",
    b'"; DROP TABLE job; --', b"../../etc/passwd", b"..", b"-1", b"1e400", b"NaN", b"null", b" ",
    b"\xe2\x80\xae", b"x" * 2000, b"01890000~",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_as_any_parameter(service: Any, text: bytes) -> None:
    tried = 0
    for path, operations in service.http.app.openapi()["paths"].items():
        for method, operation in operations.items():
            if path.endswith("events"):
                continue
            named = re.sub(r"\{\w+\}", quote(text, safe=""), path)
            harmless(service.http.request(method, named))
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    query = f"{parameter['name']}={quote(text, safe='')}"
                    harmless(service.http.request(method, f"{named}?{query}"))
                    tried += 1
    assert tried > 20


CURSOR_PARTS = [
    "\0", "\ud800", "x" * 700, "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01",
    "2026-W01", "",
    1, 1e308, float("inf"), float("nan"), 10**400, -1, None, True, [], {}, [[]],
]  # fmt: skip


def cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


@pytest.mark.parametrize("part", CURSOR_PARTS, ids=lambda part: ascii(part)[:20])
def test_forged_cursors(service: Any, part: Any) -> None:
    """Whoever knows how cursors are made can write anything into one; it then finds a page, or is refused."""
    queries = {
        "jobs": {"of": "job", "owner": None, "state": None, "priority": None, "workload": None},
        "workloads": {"of": "workload", "structure": None},
        "targets": {"of": "target"},
        "keys": {"of": "api_key"},
    }
    for path, query in queries.items():
        for parts in ((part, "x"), ("2026-01-01T00:00:00Z", part), (part,), (part, part, part)):
            forged = cursor(query_digest(query), *parts)
            harmless(service.http.get(f"/v1/{path}", params={"cursor": forged}))


@pytest.mark.parametrize(
    "path",
    [
        "keys%0A", "keys%0a%0a", "keys/", "keys%2F", "keys%00", "keys%3Fx", "/keys", "jobs/../keys",
        "keys%85", "jobs/%2e%2e/keys", "keys;x", "KEYS", "keys%20", "keys%e2%80%a8", "keys%c2%a0",
    ],
)  # fmt: skip
def test_there_is_one_way_to_the_keys(service: Any, path: str) -> None:
    """By another spelling they would be found under weaker permissions."""
    _, secret = service.store.keys.create("reader", [Scope.READ])
    answer = service.http.get(f"/v1/{path}", headers={"Authorization": f"Bearer {secret}"})
    refused(answer, 400, 403, 404)


# -- bodies -------------------------------------------------------------------------------------------------


def job(**members: bytes) -> bytes:
    given = {"operator": b'"matmul(8,8,8)"', **members}
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), text) for name, text in given.items()) + b"}"


BODIES = {
    "a number of a million digits": job(seed=b"9" * 1_000_000),
    "a number of 4000 digits": job(seed=b"9" * 4000),
    "no number": job(seconds=b"NaN"),
    "infinity": job(seconds=b"Infinity"),
    "more than there is": job(seconds=b"1e400"),
    "minus nothing": job(seconds=b"-0.0"),
    "true as a number": job(trials=b"true"),
    "half a character": job(operator=b'"\\ud800"'),
    "nulls": job(operator=b'"' + b"\\u0000" * 1000 + b'"'),
    "an unknown member": job(exec=b'"x"'),
    "deep objects": b'{"a":' * 170_000,
    "deep lists": b"[" * 1_000_000,
    "many members": json.dumps({f"x{i}": 1 for i in range(60_000)}).encode(),
    "many tasks": json.dumps({"tasks": [{}] * 100_000}).encode(),
    "tasks that are none": json.dumps({"tasks": list(range(100_000))}).encode(),
    "spaces": b" " * 1_000_000,
    "nothing": b"null",
    "a name that commands terminals": json.dumps(
        {"tasks": [{"operator": "matmul(8,8,8)", "name": "\x1b[31m"}]}
    ).encode(),
    "a name with a line of a log": json.dumps(
        {"tasks": [{"operator": "matmul(8,8,8)", "name": "x\nINFO: all is well"}]}
    ).encode(),
    "a name written backwards": json.dumps(
        {"tasks": [{"operator": "matmul(8,8,8)", "name": "\u202ex"}]}
    ).encode(),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_bodies(service: Any, body: bytes) -> None:
    for path in ("/v1/jobs", "/v1/best", "/v1/keys", "/v1/records"):
        refused(service.http.post(path, content=body, headers=JSON), 400, 413, 422)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\n" * 8_000_000, LINES),
        (b"\n".join([b"[" * 1000] * 400), LINES),
        (b"9" * 5000, LINES),
        (b'{"records":[' + b"1," * 3_000_000 + b"1]}", JSON),
        (b'{"records":[' + b"9" * 5000 + b"]}", JSON),
        (b'{"records":[1e999]}', JSON),
    ],
    ids=["empty lines", "deep lines", "a long number", "millions of records", "a long record", "infinity"],
)
def test_uploads(service: Any, body: bytes, kind: dict[str, str]) -> None:
    answer = service.http.post("/v1/records", content=body, headers=kind)
    if answer.status_code == 200:
        assert answer.json()["new"] == 0
    else:
        refused(answer, 422)
