"""The OpenAPI document: complete enough to generate a client from, and stable."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tunesmith.service.auth import needed_scope
from tunesmith.service.document import document_text

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"
BINARY = ("get_artifact", "get_model_data", "job_events", "list_events", "metrics")


@pytest.fixture
def document(start: Any) -> Any:
    with start(run_jobs=False) as service:
        document = service.http.get("/openapi.json").json()
        assert service.http.get("/openapi.json").json() == document
        return document


def operations(document: Any) -> dict[str, Any]:
    return {op["operationId"]: op for path in document["paths"].values() for op in path.values()}


def test_the_document_is_the_committed_one() -> None:
    """A change of the API is a change of this file, to be read as one. Written anew by
    `python -m tunesmith.service.document > docs/openapi.json`."""
    assert document_text() == COMMITTED.read_text()


def test_every_operation_says_what_it_needs(document: Any) -> None:
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            scope = needed_scope(method.upper(), path)
            assert operation["security"] == ([{"key": [scope]}] if scope else []), (method, path)


def test_every_reference_leads_somewhere(document: Any) -> None:
    found = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert found <= set(document["components"]["schemas"])


def test_every_answer_is_described(document: Any) -> None:
    for name, operation in operations(document).items():
        assert operation["summary"] and operation["description"], name
        for status, response in operation["responses"].items():
            if status in ("4XX", "5XX"):
                content = response["content"]["application/problem+json"]
                assert content["schema"]["$ref"].endswith("/Problem"), name
            elif status not in ("204", "304") and name not in BINARY:
                assert "$ref" in response["content"]["application/json"]["schema"], (name, status)
    assert "422" not in {s for op in operations(document).values() for s in op["responses"]}


def test_the_job_request_has_its_bounds(document: Any) -> None:
    fields = document["components"]["schemas"]["JobRequest"]["properties"]
    trials = next(option for option in fields["trials"]["anyOf"] if option["type"] == "integer")
    assert (trials["minimum"], trials["maximum"]) == (1, 100_000)
    assert "202" in document["paths"]["/v1/jobs"]["post"]["responses"]
    assert "Location" in document["paths"]["/v1/jobs"]["post"]["responses"]["202"]["headers"]
