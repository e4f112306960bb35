"""What users of HTTP take for granted."""

from typing import Any

import db_samples as samples
import pytest

JOB = {"operator": "matmul(64,64,64)", "trials": 4}


PATHS = ("/livez", "/v1/jobs", "/v1/records/{record}", "/openapi.json", "/v1/jobs/x")


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(service: Any, path: str) -> None:
    record = samples.record(1e-3)
    service.store.add(record)
    url = path.format(record=record.id)
    got, head = service.http.get(url), service.http.head(url)
    assert head.status_code == got.status_code and head.content == b""
    same = ("content-type", "etag", "content-length")
    assert [head.headers.get(name) for name in same] == [got.headers.get(name) for name in same]


def test_a_stream_has_no_head(service: Any) -> None:
    answer = service.http.head("/v1/events")
    assert answer.status_code == 405 and answer.headers["Allow"] == "GET"


def test_pages_link_to_the_next(service: Any) -> None:
    service.store.add_all([samples.record(1e-3, trial=i) for i in range(5)])
    url, seen = "/v1/records?limit=2&status=ok", []
    while url:
        answer = service.http.get(url)
        seen += [item["id"] for item in answer.json()["items"]]
        url = answer.links.get("next", {}).get("url", "")
        assert bool(url) == (answer.json()["next_cursor"] is not None)
    assert len(set(seen)) == len(seen) == 5


def test_a_misspelt_parameter_is_refused(service: Any) -> None:
    answer = service.http.get("/v1/jobs?stat=failed&limit=1")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "stat: no such parameter; did you mean state?"
    assert service.http.get("/v1/records/x?limit=1").json()["detail"] == "limit: no such parameter"
    assert service.http.get("/v1/nowhere?a=1").status_code == 404


def test_what_is_not_there_says_where_to_look(service: Any) -> None:
    answer = service.http.get("/v2/jobs")
    assert answer.status_code == 404 and "/openapi.json" in answer.json()["detail"]
    wrong = service.http.put("/v1/jobs")
    assert wrong.status_code == 405 and wrong.json()["detail"] == "It takes GET, HEAD, POST, not PUT."


def test_what_is_made_says_where_it_is_and_at_which_version(service: Any) -> None:
    job = service.http.post("/v1/jobs", json=JOB)
    assert job.headers["ETag"] == f'"v{job.json()["version"]}"'
    key = service.http.post("/v1/keys", json={"name": "ci", "scopes": ["read"]})
    assert service.http.get(key.headers["Location"]).json() == key.json()["key"]
    near = service.http.post("/v1/best", json={"operator": "matmul(64,64,63)", "near": True})
    assert near.status_code == 422 and near.json()["errors"][0]["in"] == "body"
