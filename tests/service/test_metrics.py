"""The page for Prometheus, read by a parser that forgives nothing, and its size whatever is asked for."""

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tunesmith.db import DatabaseUnavailable, Store

_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
_LABELS = rf'(?:\{{{_NAME}="[^"\\\n]*"(?:,{_NAME}="[^"\\\n]*")*\}})?'
_SAMPLE = re.compile(rf"({_NAME}){_LABELS} (?:[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|Inf)|NaN)")
_COMMENT = re.compile(rf"# (HELP|TYPE) ({_NAME}) (.+)")
_SUFFIXES = ("_total", "_bucket", "_count", "_sum")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: str) -> Samples:
    """All samples by name and labels; every line is in order, and no family or sample is there twice."""
    described: dict[str, set[str]] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if found := _COMMENT.fullmatch(line):
            assert found[1] not in described.setdefault(found[2], set()), line
            described[found[2]].add(found[1])
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, line
        family = next((sample[1].removesuffix(s) for s in _SUFFIXES if sample[1].endswith(s)), sample[1])
        assert {"HELP", "TYPE"} in (described.get(family), described.get(sample[1])), line
    samples: Samples = {}
    for metric in text_string_to_metric_families(text):
        for one in metric.samples:
            key = one.name, tuple(sorted(one.labels.items()))
            assert key not in samples, key
            samples[key] = one.value
    return samples


def page(service: Any) -> Samples:
    service.http.app.state.context.pulse._stale_at = 0.0
    answer = service.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read(answer.text)


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"tunesmith_{name}", tuple(sorted(labels.items()))]


def test_the_figures_are_true(service: Any) -> None:
    job = service.submit(trials=8)
    service.ended(job)
    service.http.get("/v1/jobs/nothing")
    found = page(service)
    assert value(found, "http_requests_total", route="/v1/jobs", method="POST", status="202") == 1
    assert value(found, "http_requests_total", route="/v1/jobs/{job_id}", method="GET", status="404") == 1
    assert value(found, "http_request_seconds_count", route="/v1/jobs", method="POST") == 1
    assert value(found, "jobs", state="succeeded") == 1 and value(found, "jobs", state="failed") == 0
    assert value(found, "trials_total", status="ok") == 6
    assert value(found, "trials_total", status="run_error") == 2
    assert value(found, "records", outcome="ok") == 6 and value(found, "records", outcome="failed") == 2
    assert (value(found, "workloads"), value(found, "queue_length")) == (1, 0)
    assert value(found, "sweeps_total") >= 1 and value(found, "tuner_up") == 1
    assert value(found, "database_up") == 1 and value(found, "database_latency_seconds") > 0
    (build,) = (dict(labels) for name, labels in found if name == "tunesmith_build_info")
    assert set(build) == {"version", "python", "schema", "database"} and build["database"] == "sqlite"


def test_every_figure_is_documented(service: Any) -> None:
    document = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    kinds = re.findall(r"# TYPE (tunesmith_\w+)", service.http.get("/metrics").text)
    assert kinds and {kind for kind in kinds if f"`{kind}`" not in document} == set()


def test_the_queue(any_url: str, start: Any) -> None:
    with start(run_jobs=False, url=any_url) as service:
        assert value(page(service), "queue_oldest_seconds") == 0
        jobs = [service.submit(operator=f"matmul({n},8,8)") for n in (8, 9, 10)]
        service.store.jobs.claim_next("elsewhere", lease_s=1000)
        service.store.jobs.claim_next("silent", lease_s=-1)
        found = page(service)
        assert value(found, "queue_length") == 1
        assert (value(found, "leases"), value(found, "leases_expired")) == (2, 1)
        assert 0 < value(found, "queue_oldest_seconds") < 60
        assert ("tunesmith_tuner_up", ()) not in found, "nothing is tuned here"
        service.http.app.state.context.sweeper.sweep()
        assert value(page(service), "jobs_taken_back_total") == 1
        assert all(service.http.post(f"/v1/jobs/{job}:cancel").status_code == 200 for job in jobs)


def test_nobody_can_make_series(service: Any) -> None:
    """Whatever is asked for: routes and methods are those that there are."""
    paths = ("/v1/jobs/{}", "/v1/nothing/{}", "/{}%22%0A", "/v1/records/{}?x={}", "//{}/../{}")
    for n in range(3):
        for path in (path.replace("{}", str(n)) for path in paths):
            for method in ("GET", "POST", f"BREW{n}", "DELETE"):
                service.http.request(method, path, headers={"Host": "localhost"})
        service.http.get("/v1/jobs", headers={"Host": f"evil{n}"})
        service.http.get("/v1/jobs", headers={"Authorization": f"Bearer tsk_{n}"})
    series = {key for key in page(service) if key[0] == "tunesmith_http_requests_total"}
    labels = [dict(labels) for _, labels in series]
    templates = set(service.http.app.openapi()["paths"]) | {"none", "/openapi.json"}
    assert {label["route"] for label in labels} <= templates
    assert {label["method"] for label in labels} <= {"GET", "POST", "DELETE", "other"}
    assert len(labels) < 40


def test_a_lost_database_is_told_not_waited_for(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> Any:
        raise DatabaseUnavailable("gone")

    monkeypatch.setattr(Store, "ping", gone)
    found = page(service)
    assert value(found, "database_up") == 0 and ("tunesmith_workloads", ()) not in found
    assert value(found, "event_streams") == 0
    monkeypatch.undo()
    assert value(page(service), "database_up") == 1


def test_the_database_is_not_asked_each_time(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page(service)
    monkeypatch.setattr(Store, "figures", None)
    assert value(read(service.http.get("/metrics").text), "database_up") == 1


def test_it_needs_a_key_to_read_where_keys_are_required(start: Any) -> None:
    with start(run_jobs=False, require_key=True) as service:
        _, secret = service.store.keys.create("prometheus", ("read",))
        assert service.http.get("/metrics").status_code == 401
        assert service.http.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        assert service.http.get("/readyz").status_code == 200
