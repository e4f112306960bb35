"""The OpenAPI document: complete enough to generate a client from, and stable."""

from typing import Any

import pytest

OPERATIONS = {
    "create_job": ("post", "/v1/jobs"),
    "list_jobs": ("get", "/v1/jobs"),
    "get_job": ("get", "/v1/jobs/{job_id}"),
    "list_tasks": ("get", "/v1/jobs/{job_id}/tasks"),
    "pause_job": ("post", "/v1/jobs/{job_id}:pause"),
    "resume_job": ("post", "/v1/jobs/{job_id}:resume"),
    "stop_job": ("post", "/v1/jobs/{job_id}:stop"),
    "cancel_job": ("post", "/v1/jobs/{job_id}:cancel"),
    "job_events": ("get", "/v1/jobs/{job_id}/events"),
    "list_events": ("get", "/v1/events"),
    "list_records": ("get", "/v1/records"),
    "get_record": ("get", "/v1/records/{record_id}"),
    "explain_record": ("get", "/v1/records/{record_id}/explanation"),
    "list_workloads": ("get", "/v1/workloads"),
    "list_targets": ("get", "/v1/targets"),
    "get_artifact": ("get", "/v1/records/{record_id}/artifacts/{kind}"),
    "get_best": ("get", "/v1/best"),
    "find_best": ("post", "/v1/best"),
    "livez": ("get", "/livez"),
    "readyz": ("get", "/readyz"),
}


@pytest.fixture
def document(start: Any) -> Any:
    with start(run_jobs=False) as service:
        document = service.http.get("/openapi.json").json()
        assert service.http.get("/openapi.json").json() == document
        return document


def operations(document: Any) -> dict[str, Any]:
    return {op["operationId"]: op for path in document["paths"].values() for op in path.values()}


def test_operations_keep_their_names(document: Any) -> None:
    found = {
        op["operationId"]: (method, path)
        for path, methods in document["paths"].items()
        for method, op in methods.items()
    }
    assert found == OPERATIONS


def test_every_answer_is_described(document: Any) -> None:
    for name, operation in operations(document).items():
        assert operation["summary"] and operation["description"], name
        for status, response in operation["responses"].items():
            if status in ("4XX", "5XX"):
                content = response["content"]["application/problem+json"]
                assert content["schema"]["$ref"].endswith("/Problem"), name
            elif status not in ("204", "304") and name not in ("get_artifact", "job_events", "list_events"):
                assert "$ref" in response["content"]["application/json"]["schema"], (name, status)
    assert "422" not in {s for op in operations(document).values() for s in op["responses"]}


def test_the_job_request_has_its_bounds(document: Any) -> None:
    fields = document["components"]["schemas"]["JobRequest"]["properties"]
    trials = next(option for option in fields["trials"]["anyOf"] if option["type"] == "integer")
    assert (trials["minimum"], trials["maximum"]) == (1, 100_000)
    assert "202" in document["paths"]["/v1/jobs"]["post"]["responses"]
    assert "Location" in document["paths"]["/v1/jobs"]["post"]["responses"]["202"]["headers"]
