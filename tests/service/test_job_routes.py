"""Jobs over HTTP: submitted, run, watched, cancelled."""

from typing import Any

import pytest

from tunesmith.db import DatabaseLocked
from tunesmith.ir import TunesmithError

TEXT = "def dense(x: f32[32, 16], w: f32[16, 8]):\n    return x @ w\n"


def test_submit_and_follow(service: Any) -> None:
    answer = service.http.post("/v1/jobs", json={"program": TEXT, "trials": 8, "seed": 3})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["location"] == job["links"]["self"] == f"/v1/jobs/{job['id']}"
    assert (job["name"], job["source"]) == ("dense", {"program": TEXT})
    done = service.ended(job["id"])
    assert (done["state"], done["error"]) == ("succeeded", None)
    progress = done["progress"]
    assert (progress["trials"], progress["trials_total"]) == (8, 8)
    assert (progress["measured"], progress["failed"]) == (8, 2)
    assert progress["phase"] == "" and progress["untuned_s"] == 1e-3 and progress["elapsed_s"] > 0
    best = progress["best"]
    assert best["gflops"] > 0 and best["peak_fraction"] > 0
    assert done["result"]["trials"] == 8 and done["result"]["best"]["record"] == best["record"]
    assert done["created_at"] <= done["started_at"] <= done["finished_at"]
    records = service.http.get(done["links"]["records"]).json()["items"]
    assert len(records) == 8 and {r["job_id"] for r in records} == {job["id"]}


def test_what_the_tuner_is_asked(service: Any) -> None:
    service.ended(service.submit(trials=2, seconds=30.0, threads=1, seed=5, fresh=True, cache="cold"))
    service.ended(service.submit())
    first, second = service.tuner.calls
    assert (first.trials, first.seconds, first.threads, first.seed, first.fresh) == (2, 30.0, 1, 5, True)
    assert first.protocol.cache == "cold"
    assert (second.trials, second.seconds, second.fresh, second.protocol.cache) == (8, None, False, "warm")


@pytest.mark.parametrize(
    ("body", "trials"),
    [({}, 64), ({"trials": None}, 64), ({"seconds": 5}, None), ({"trials": 9, "seconds": 5}, 9)],
)
def test_budgets(start: Any, body: dict[str, Any], trials: int | None) -> None:
    with start(run_jobs=False) as service:
        answer = service.http.post("/v1/jobs", json={"operator": "matmul(8,8,8)", **body})
        assert answer.json()["options"]["trials"] == trials
        assert answer.json()["progress"]["trials_total"] == trials


def test_what_is_recorded_counts(service: Any) -> None:
    service.ended(service.submit(trials=8))
    again = service.ended(service.submit(trials=8))
    assert again["state"] == "succeeded"
    assert (again["progress"]["trials"], again["progress"]["measured"]) == (8, 0)
    assert again["progress"]["best"]["record"] == again["result"]["best"]["record"]


def test_one_at_a_time_in_order(service: Any) -> None:
    service.tuner.hold.clear()
    first, second = service.submit(operator="matmul(8,8,8)"), service.submit(operator="matmul(8,8,9)")
    service.wait(first, lambda job: job["state"] == "running")
    assert service.http.get(f"/v1/jobs/{second}").json()["state"] == "queued"
    service.tuner.hold.set()
    assert service.ended(first)["finished_at"] <= service.ended(second)["started_at"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({}, "body"),
        ({"program": TEXT, "operator": "matmul(8,8,8)"}, "body"),
        ({"program": TEXT, "trials": 0}, "trials"),
        ({"program": TEXT, "trials": 100_001}, "trials"),
        ({"program": TEXT, "trials": "many"}, "trials"),
        ({"program": TEXT, "seconds": 0}, "seconds"),
        ({"program": TEXT, "seconds": 7 * 86400 + 1}, "seconds"),
        ({"program": TEXT, "threads": 0}, "threads"),
        ({"program": TEXT, "threads": 100_000}, "threads"),
        ({"program": TEXT, "seed": -1}, "seed"),
        ({"program": TEXT, "seed": 1 << 63}, "seed"),
        ({"program": TEXT, "cache": "hot"}, "cache"),
        ({"program": TEXT, "path": "/etc/passwd"}, "path"),
        ({"program": 7}, "program"),
        ([], "body"),
    ],
)
def test_invalid_requests(service: Any, body: Any, name: str) -> None:
    answer = service.http.post("/v1/jobs", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "urn:tunesmith:problem:invalid-request"
    assert [fault["name"] for fault in problem["errors"]] == [name]
    assert service.http.get("/v1/jobs").json()["items"] == []


def test_invalid_programs_point_at_the_place(service: Any) -> None:
    text = "def f(x: f32[4]):\n    return y + 1\n"
    answer = service.http.post("/v1/jobs", json={"program": text})
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "urn:tunesmith:problem:invalid-program"
    assert problem["line"] == 2 and problem["column"] > 0
    assert "y" in problem["detail"]
    answer = service.http.post("/v1/jobs", json={"operator": "matmull(8,8,8)"})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:tunesmith:problem:invalid-program")


@pytest.mark.parametrize(
    "body",
    [
        {"operator": "matmul(65536,65536,65536)"},
        {"program": "def f(x: f32[1048576, 1048576]):\n    return x + 1\n"},
        {"program": TEXT + "#" * (1 << 16)},
    ],
)
def test_programs_that_are_too_large(service: Any, body: dict[str, Any]) -> None:
    answer = service.http.post("/v1/jobs", json=body)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:tunesmith:problem:program-too-large")


@pytest.mark.parametrize(
    "text", ["__import__('os').system('id')", "def f(x: f32[4]):\n    return open('x')\n", "\0"]
)
def test_text_is_not_executed(service: Any, text: str) -> None:
    for body in ({"program": text}, {"operator": text}):
        assert service.http.post("/v1/jobs", json=body).status_code == 422


def test_idempotency_keys(service: Any) -> None:
    body, headers = {"program": TEXT, "trials": 4}, {"Idempotency-Key": "k-1"}
    first = service.http.post("/v1/jobs", json=body, headers=headers)
    again = service.http.post("/v1/jobs", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    other = service.http.post("/v1/jobs", json=body | {"trials": 5}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:tunesmith:problem:idempotency-mismatch")
    assert len(service.http.get("/v1/jobs").json()["items"]) == 1
    for bad in ("", "x" * 256, "a b"):
        answer = service.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": bad})
        assert answer.status_code == 422


def test_polling_with_etags(service: Any) -> None:
    job = service.submit()
    service.ended(job)
    answer = service.http.get(f"/v1/jobs/{job}")
    etag = answer.headers["etag"]
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        same = service.http.get(f"/v1/jobs/{job}", headers={"If-None-Match": known})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    assert service.http.get(f"/v1/jobs/{job}", headers={"If-None-Match": '"v0"'}).status_code == 200


def test_lists(start: Any) -> None:
    with start(run_jobs=False) as service:
        jobs = [service.submit(operator=f"matmul(8,8,{n})") for n in (8, 16, 24)]
        service.http.post(f"/v1/jobs/{jobs[0]}:cancel")
        page = service.http.get("/v1/jobs", params={"limit": 2}).json()
        assert [job["id"] for job in page["items"]] == [jobs[2], jobs[1]]
        assert "source" not in page["items"][0] and page["items"][0]["progress"]["trials_total"] == 8
        rest = service.http.get("/v1/jobs", params={"limit": 2, "cursor": page["next_cursor"]}).json()
        assert ([job["id"] for job in rest["items"]], rest["next_cursor"]) == ([jobs[0]], None)
        queued = service.http.get("/v1/jobs", params={"state": "queued"}).json()
        assert len(queued["items"]) == 2
        wrong = service.http.get("/v1/jobs", params={"state": "queued", "cursor": page["next_cursor"]})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "urn:tunesmith:problem:bad-cursor")
        assert service.http.get("/v1/jobs", params={"state": "asleep"}).status_code == 422
        assert service.http.get("/v1/jobs", params={"limit": 501}).status_code == 422


def test_cancel_a_queued_job(start: Any) -> None:
    with start(run_jobs=False) as service:
        job = service.submit()
        for _ in range(2):
            answer = service.http.post(f"/v1/jobs/{job}:cancel")
            assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")


def test_cancel_a_running_job(service: Any) -> None:
    service.tuner.trial_s = 0.02
    job = service.submit(trials=10_000)
    service.wait(job, lambda view: view["progress"]["measured"] > 2)
    answer = service.http.post(f"/v1/jobs/{job}:cancel")
    assert answer.status_code == 200 and answer.json()["requested"] == "cancelled"
    done = service.ended(job)
    assert done["state"] == "cancelled"
    assert done["result"]["stopped_by"] == "interrupted" and done["progress"]["best"]
    assert service.http.post(f"/v1/jobs/{job}:cancel").status_code == 200


def test_what_is_over_cannot_be_cancelled(service: Any) -> None:
    job = service.submit()
    service.ended(job)
    answer = service.http.post(f"/v1/jobs/{job}:cancel")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tunesmith:problem:conflict")
    assert "succeeded" in answer.json()["detail"]


def test_unknown_jobs(service: Any) -> None:
    for method, path in (("GET", "/v1/jobs/x"), ("POST", "/v1/jobs/x:cancel")):
        answer = service.http.request(method, path)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:tunesmith:problem:not-found")


def test_a_tuner_that_refuses(service: Any) -> None:
    service.tuner.fault = TunesmithError("this machine has no vector unit")
    done = service.ended(service.submit())
    assert (done["state"], done["error"]) == ("failed", "this machine has no vector unit")


def test_a_tuner_with_a_bug(service: Any, caplog: pytest.LogCaptureFixture) -> None:
    service.tuner.fault = ZeroDivisionError("secret detail")
    done = service.ended(service.submit())
    assert done["state"] == "failed"
    assert "secret" not in done["error"] and "log" in done["error"]
    assert "secret detail" in caplog.text
    service.tuner.fault = None
    assert service.ended(service.submit())["state"] == "succeeded", "the worker goes on"


def test_a_database_out_of_reach_is_not_the_job_s_fault(
    service: Any, caplog: pytest.LogCaptureFixture
) -> None:
    service.tuner.fault = DatabaseLocked("x.db is locked")
    job = service.submit()
    service.wait(job, lambda _: service.tuner.calls and "out of reach" in caplog.text)
    service.tuner.fault = None
    assert service.ended(job)["state"] == "succeeded"


def test_no_candidate_works(service: Any) -> None:
    service.tuner.fail_every = 1
    done = service.ended(service.submit(trials=3))
    assert (done["state"], done["error"]) == ("failed", "no candidate works: 3 run_error")
    assert done["progress"]["best"] is None
