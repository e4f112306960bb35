"""Who is let in, what they see, how much they may have; and that secrets stay secret."""

import datetime as dt
import gzip
import itertools
import json
import logging
import re
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tunesmith.db import Scope
from tunesmith.service import Limits
from tunesmith.service.auth import gate, needed_scope

OPEN = {"/livez", "/readyz"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def closed(start: Any) -> Iterator[Any]:
    """A service that asks for a key, on a loopback address too."""
    with start(run_jobs=False, require_key=True, limits=Limits(failures_burst=1000.0)) as service:
        yield service


def bearer(service: Any, *scopes: Scope, **more: Any) -> dict[str, str]:
    _, secret = service.store.keys.create("test", scopes, **more)
    return {"Authorization": f"Bearer {secret}"}


def routes(service: Any) -> list[tuple[str, str]]:
    document = service.http.app.openapi()
    return [
        (method.upper(), re.sub(r"\{[^}]*\}", "01890000", path))
        for path, methods in document["paths"].items()
        for method in methods
    ]


def problem(answer: Any) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["type"].removeprefix("urn:tunesmith:problem:")


# -- keys ---------------------------------------------------------------------------------------------------


def test_no_route_answers_without_a_key(closed: Any) -> None:
    for method, path in [*routes(closed), ("GET", "/openapi.json"), ("GET", "/metrics"), ("GET", "/nowhere")]:
        answer = closed.http.request(method, path)
        if path in OPEN:
            assert answer.status_code == 200, path
        else:
            assert problem(answer) == (401, "unauthorized"), (method, path)
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_no_route_answers_a_wrong_key(closed: Any) -> None:
    wrong = itertools.cycle(("Bearer tsk_" + "x" * 51, "Bearer x", "Bearer", "Basic dTpw", "tsk_"))
    for (method, path), header in zip(routes(closed), wrong, strict=False):
        answer = closed.http.request(method, path, headers={"Authorization": header})
        assert problem(answer) == (401, "unauthorized"), (method, path, header)


def test_no_route_answers_a_key_without_its_scope(closed: Any) -> None:
    keys = {scope: bearer(closed, *(s for s in Scope if s not in (scope, Scope.ADMIN))) for scope in Scope}
    for method, path in routes(closed):
        needed = needed_scope(method, path)
        if needed is not None:
            answer = closed.http.request(method, path, headers=keys[needed])
            assert problem(answer) == (403, "forbidden"), (method, path)
            assert f'scope="{needed}"' in answer.headers["www-authenticate"]


def test_a_route_nobody_thought_of_needs_admin() -> None:
    for method, path in (
        ("POST", "/v1/new"),
        ("DELETE", "/v1/records/x"),
        ("GET", "/v2"),
        ("PUT", "/v1/best"),
    ):
        assert needed_scope(method, path) is Scope.ADMIN
    assert needed_scope("GET", "/v1/keysx") is Scope.READ and needed_scope("GET", "/v1/keys/x") is Scope.ADMIN


def test_admin_may_everything(closed: Any) -> None:
    headers = bearer(closed, Scope.ADMIN)
    for method, path in routes(closed):
        if not path.endswith("events"):
            assert closed.http.request(method, path, headers=headers).status_code not in (401, 403), path


def test_expired_and_revoked_keys(closed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "KEY_LIFE_S", 0.0)
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.5)
    expiring, revoked = bearer(closed, Scope.READ, expires_at=soon), bearer(closed, Scope.READ)
    assert closed.http.get("/v1/jobs", headers=revoked).status_code == 200
    closed.store.keys.revoke(closed.store.keys.list(limit=1).items[0].id)
    monkeypatch.setattr(gate, "utc_now", lambda: soon)
    for headers in (expiring, revoked):
        answer = closed.http.get("/v1/jobs", headers=headers)
        assert (
            problem(answer) == (401, "unauthorized") and "invalid_token" in answer.headers["www-authenticate"]
        )


def test_loopback_is_open_until_it_is_closed(start: Any) -> None:
    with start(run_jobs=False) as service:
        assert service.http.get("/v1/keys").status_code == 200
        wrong = {"Authorization": "Bearer tsk_" + "x" * 51}
        assert service.http.get("/v1/jobs", headers=wrong).status_code == 401
        narrow = bearer(service, Scope.READ)
        assert service.http.get("/v1/keys", headers=narrow).status_code == 403


def test_use_is_noted(closed: Any) -> None:
    headers = bearer(closed, Scope.READ)
    closed.http.get("/v1/jobs", headers=headers)
    assert closed.store.keys.list().items[0].last_used_at is not None


def test_keys_over_http(closed: Any) -> None:
    admin = bearer(closed, Scope.ADMIN)
    body = {"name": "ci", "scopes": ["read"], "expires_in_s": 3600}
    once = admin | {"Idempotency-Key": "k1"}
    made = closed.http.post("/v1/keys", json=body, headers=once)
    assert made.status_code == 201
    secret = made.json()["secret"]
    again = closed.http.post("/v1/keys", json=body, headers=once)
    assert again.json() == made.json() | {"secret": None}
    assert problem(closed.http.post("/v1/keys", json=body | {"name": "x"}, headers=once)) == (
        422, "idempotency-mismatch",
    )  # fmt: skip
    reader = {"Authorization": f"Bearer {secret}"}
    assert closed.http.get("/v1/jobs", headers=reader).status_code == 200
    listed = closed.http.get("/v1/keys", headers=admin)
    assert [key["name"] for key in listed.json()["items"]] == ["ci", "test"]
    assert secret not in listed.text and "sha256" not in listed.text
    key = made.json()["key"]["id"]
    gone = closed.http.delete(f"/v1/keys/{key}", headers=admin).json()
    assert gone["revoked_at"] and closed.http.get(f"/v1/keys/{key}", headers=admin).json()["id"] == key


def test_no_secret_in_the_log(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with start(run_jobs=False, require_key=True) as service:
        headers = bearer(service, Scope.ADMIN)
        secret = headers["Authorization"].removeprefix("Bearer ")
        made = service.http.post("/v1/keys", json={"name": "x", "scopes": ["read"]}, headers=headers)
        service.http.get("/v1/jobs", headers={"Authorization": f"Bearer {secret[:-1]}"})
        service.http.get("/v1/nowhere", headers=headers)
    assert secret[12:] not in caplog.text and made.json()["secret"][12:] not in caplog.text


def test_what_is_said_of_security_is_tested_where_it_says() -> None:
    root = Path(__file__).parents[2]
    named = set(re.findall(r"`(?:tests/\w+/)?(test_\w+\.py)`", (root / "SECURITY.md").read_text()))
    there = {path.name for path in root.glob("tests/*/test_*.py")}
    assert len(named) > 10 and named <= there


# -- other people's -----------------------------------------------------------------------------------------


SHARED = {  # measurements and models are everybody's who may read, keys are of those who hand them out
    "/v1/records", "/v1/workloads", "/v1/targets", "/v1/best", "/v1/models", "/v1/keys", "/livez", "/readyz",
    "/metrics",
}  # fmt: skip


def test_what_belongs_to_somebody_is_known(closed: Any) -> None:
    """A route that is neither below jobs, nor here, nor among the events below needs a decision."""
    for _, path in routes(closed):
        mine = path.startswith("/v1/jobs") or path == "/v1/events"
        assert mine or any(path == shared or path.startswith(f"{shared}/") for shared in SHARED), path


def test_other_peoples_jobs_do_not_exist(closed: Any) -> None:
    mine, theirs = bearer(closed, Scope.READ, Scope.SUBMIT), bearer(closed, Scope.READ, Scope.SUBMIT)
    admin = bearer(closed, Scope.ADMIN)
    body = {"operator": "matmul(64,64,64)", "trials": 8}
    job = closed.http.post("/v1/jobs", json=body, headers=mine).json()["id"]
    answer = closed.http.get("/v1/jobs", headers=mine)
    tried = 0
    for method, path in routes(closed):
        if path.startswith("/v1/jobs/01890000"):
            for headers in (theirs, theirs | {"If-Match": '"v1"', "If-None-Match": "*"}):
                there = closed.http.request(method, path.replace("01890000", job), headers=headers)
                nowhere = closed.http.request(method, path, headers=headers)
                assert problem(there) == problem(nowhere) == (404, "not-found"), (method, path)
                assert there.json()["detail"] == nowhere.json()["detail"].replace("01890000", job)
            tried += 1
    assert tried >= 7
    for query in ({}, {"state": "queued"}, {"workload": answer.json()["items"][0]["workload"]}):
        assert closed.http.get("/v1/jobs", headers=theirs, params=query).json()["items"] == []
    for headers in (mine, admin):
        assert closed.http.get(f"/v1/jobs/{job}", headers=headers).status_code == 200
        assert len(closed.http.get("/v1/jobs", headers=headers).json()["items"]) == 1
    state = closed.http.get(f"/v1/jobs/{job}", headers=mine).json()["state"]
    assert state == "queued", "the others changed nothing"


def test_other_peoples_events_are_not_heard(closed: Any) -> None:
    mine, theirs = bearer(closed, Scope.READ, Scope.SUBMIT), bearer(closed, Scope.READ, Scope.SUBMIT)
    body = {"operator": "matmul(64,64,64)", "trials": 8}
    made = [closed.http.post("/v1/jobs", json=body, headers=who).json()["id"] for who in (mine, theirs)]
    owners = [key.id for key in closed.store.keys.list().items]  # newest first
    heard = [{event.job_id for event in closed.store.events.after(0, owner=owner)} for owner in owners]
    assert heard == [{made[1]}, {made[0]}]
    assert closed.store.events.after(0, owner="nobody") == []


def test_no_secret_in_errors_and_the_document(closed: Any) -> None:
    admin = bearer(closed, Scope.ADMIN)
    secret = admin["Authorization"].removeprefix("Bearer ")
    for method, path in [*routes(closed), ("GET", "/openapi.json"), ("GET", f"/v1/jobs/{secret[:40]}")]:
        if not path.endswith("events"):
            answer = closed.http.request(method, path, headers=admin | JSON)
            assert secret not in answer.text and secret not in str(answer.headers), path
    refused = closed.http.get("/v1/jobs", headers={"Authorization": f"Bearer {secret}x"})
    assert problem(refused) == (401, "unauthorized") and secret not in refused.text


def test_keys_share_no_idempotency_keys(closed: Any) -> None:
    body = {"operator": "matmul(64,64,64)", "trials": 8}
    made = {
        closed.http.post(
            "/v1/jobs", json=body, headers=bearer(closed, Scope.SUBMIT) | {"Idempotency-Key": "same"}
        ).json()["id"]
        for _ in range(2)
    }
    assert len(made) == 2


# -- how much -----------------------------------------------------------------------------------------------


def test_rates(start: Any) -> None:
    limits = Limits(requests_per_s=0.5, requests_burst=3.0)
    with start(run_jobs=False, require_key=True, limits=limits) as service:
        one, other = bearer(service, Scope.READ), bearer(service, Scope.READ)
        statuses = [service.http.get("/v1/jobs", headers=one).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        refused = service.http.get("/v1/jobs", headers=one)
        assert problem(refused) == (429, "too-many-requests")
        assert 1 <= int(refused.headers["retry-after"]) <= 2
        assert service.http.get("/v1/jobs", headers=other).status_code == 200


def test_guessing_is_slow(start: Any) -> None:
    with start(run_jobs=False, require_key=True, limits=Limits(failures_per_s=0.1, failures_burst=2.0)) as s:
        wrong = {"Authorization": "Bearer tsk_" + "x" * 51}
        statuses = [s.http.get("/v1/jobs", headers=wrong).status_code for _ in range(4)]
        assert statuses == [401, 401, 429, 429]
        assert s.http.get("/v1/jobs", headers=bearer(s, Scope.READ)).status_code == 200


def test_quotas(start: Any) -> None:
    limits = Limits(jobs_per_key=2, trials_per_day=50, bytes_per_day=100)
    with start(run_jobs=False, require_key=True, limits=limits) as service:
        headers = bearer(service, Scope.SUBMIT, Scope.MEASURE, Scope.READ)

        def submit(trials: int) -> Any:
            body = {"operator": "matmul(64,64,64)", "trials": trials}
            return service.http.post("/v1/jobs", json=body, headers=headers)

        assert problem(submit(51)) == (429, "quota-exceeded")
        jobs = [submit(20).json()["id"], submit(20).json()["id"]]
        refused = submit(1)
        assert problem(refused) == (429, "quota-exceeded") and int(refused.headers["retry-after"]) > 0
        service.http.post(f"/v1/jobs/{jobs[0]}:cancel", headers=headers)
        assert submit(30).status_code == 202, "what a cancelled job did not measure is free again"
        padded = json.dumps({"records": []}).encode().ljust(60)
        sent = [
            service.http.post("/v1/records", content=padded, headers=headers | JSON).status_code
            for _ in range(2)
        ]
        assert sent == [200, 429]


# -- bodies -------------------------------------------------------------------------------------------------


def test_packed_bodies(closed: Any) -> None:
    headers = bearer(closed, Scope.SUBMIT) | JSON | {"Content-Encoding": "gzip"}
    body = json.dumps({"operator": "matmul(64,64,64)", "trials": 8}).encode()
    assert closed.http.post("/v1/jobs", content=gzip.compress(body), headers=headers).status_code == 202
    packed = gzip.compress(body)
    for damaged in (body, packed[:-3], packed + b"x", packed + packed):
        assert problem(closed.http.post("/v1/jobs", content=damaged, headers=headers)) == (
            400,
            "bad-encoding",
        )
    other = closed.http.post(
        "/v1/jobs", content=zlib.compress(body), headers=headers | {"Content-Encoding": "br"}
    )
    assert problem(other) == (415, "unsupported-media-type") and other.headers["accept-encoding"] == "gzip"


def test_a_bomb_costs_no_more_than_a_large_body(closed: Any) -> None:
    headers = bearer(closed, Scope.SUBMIT) | JSON | {"Content-Encoding": "gzip"}
    bomb = gzip.compress(bytes(100 << 20), 9)
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    answer = closed.http.post("/v1/jobs", content=bomb, headers=headers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problem(answer) == (413, "body-too-large")
    assert peak < 16 << 20


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"]
)
def test_bodies_of_other_types(closed: Any, kind: str) -> None:
    headers = bearer(closed, Scope.ADMIN) | {"Content-Type": kind}
    for path in ("/v1/jobs", "/v1/best", "/v1/keys", "/v1/records", "/v1/models?name=x"):
        answer = closed.http.post(path, content=b"{}", headers=headers)
        assert problem(answer) == (415, "unsupported-media-type"), path
