"""What every request passes, and what every error looks like."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tunesmith.service.logs import TextLines

TEXT = "def f(x: f32[4]):\n    return x + 1\n"


@pytest.fixture
def service(start: Any) -> Any:
    with start(run_jobs=False) as service:
        yield service


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8700", "[::1]", "LOCALHOST:1"])
def test_loopback_names_are_known(service: Any, host: str) -> None:
    assert service.http.get("/livez", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "10.0.0.1", "[", "a@evil.example"]
)
def test_foreign_names_are_not(service: Any, host: str) -> None:
    """A page that rebinds its own name to this address must not read anything."""
    answer = service.http.get("/livez", headers={"Host": host})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:tunesmith:problem:unknown-host")


def test_addresses_where_they_are_allowed(start: Any) -> None:
    with start(run_jobs=False, hosts=("tuner",), any_address=True) as service:
        for host in ("10.0.0.1:8700", "tuner", "[fe80::1]:80"):
            assert service.http.get("/livez", headers={"Host": host}).status_code == 200
        assert service.http.get("/livez", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://["])
def test_foreign_pages_change_nothing(service: Any, origin: str) -> None:
    answer = service.http.post("/v1/jobs", json={"program": TEXT}, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:tunesmith:problem:foreign-origin")
    assert service.http.get("/v1/jobs", headers={"Origin": origin}).json()["items"] == []
    own = service.http.post("/v1/jobs", json={"program": TEXT}, headers={"Origin": "http://localhost:8700"})
    assert own.status_code == 202


def test_large_bodies(service: Any) -> None:
    big = b"x" * ((1 << 20) + 1)

    def pieces() -> Any:
        yield from (big[:500_000], big[500_000:])

    for body in (big, pieces()):
        answer = service.http.post("/v1/jobs", content=body)
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:tunesmith:problem:body-too-large")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 200_000, b'{"seconds": NaN}', b"null", b'{"program": "\\ud800"}']
)
def test_bodies_that_are_no_json(service: Any, body: bytes) -> None:
    answer = service.http.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_unknown_paths_and_methods(service: Any) -> None:
    missing = service.http.get("/v2/jobs")
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:tunesmith:problem:not-found")
    wrong = service.http.delete("/v1/jobs")
    assert (wrong.status_code, wrong.json()["type"]) == (405, "urn:tunesmith:problem:method-not-allowed")
    assert wrong.headers["allow"] == "GET, HEAD, POST"
    assert service.http.get("/v1/jobs/x:stop").status_code == 404
    assert service.http.delete("/v1/jobs/x:stop").headers["allow"] == "POST"
    assert service.http.get("/v1/jobs/").status_code == 404, "no other spelling is offered"


def test_common_headers(service: Any) -> None:
    for path in ("/livez", "/v1/jobs/x"):
        headers = service.http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert len(headers["x-request-id"]) == 36


def test_problems_carry_the_id_of_the_log(service: Any) -> None:
    answer = service.http.get("/v1/jobs/x")
    assert answer.json()["trace_id"] == answer.headers["x-request-id"]


def test_our_own_mistakes_stay_in_the_log(
    service: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.setFormatter(TextLines())

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("tunesmith.service.routes.records.record_view", broken)
    monkeypatch.setattr("tunesmith.db.store.Store.get", broken)
    answer = service.http.get("/v1/records/x")
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:tunesmith:problem:internal-error")
    assert "secret" not in answer.text and "Traceback" not in answer.text
    assert answer.json()["trace_id"] in caplog.text and "secret detail" in caplog.text


def test_a_database_in_trouble(service: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert service.http.get("/readyz").json() == {"status": "ok"}
    with sqlite3.connect(tmp_path / "test.db") as raw:
        raw.execute("DROP TABLE alembic_version")
    raw.close()
    assert service.http.get("/livez").status_code == 200
    assert service.http.get("/readyz").status_code == 500


def test_a_locked_database_asks_to_come_back(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tunesmith.db import DatabaseLocked

    def locked(*_: Any) -> Any:
        raise DatabaseLocked("/home/me/secret.db is locked")

    monkeypatch.setattr("tunesmith.db.store.Store.ping", locked)
    answer = service.http.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "secret" not in answer.text


def test_readiness_needs_the_worker(start: Any) -> None:
    with start() as service:
        assert service.http.get("/readyz").status_code == 200
        runner = service.http.app.state.context.runner
        runner.stop()
        assert service.http.get("/readyz").status_code == 503
        assert service.http.get("/livez").status_code == 200


def test_broken_json_is_said_to_be_so(service: Any) -> None:
    answer = service.http.post("/v1/jobs", content=b'{"a" 1}', headers={"Content-Type": "application/json"})
    (fault,) = answer.json()["errors"]
    assert fault["name"] == "body" and "no valid JSON at character 5" in fault["detail"]
