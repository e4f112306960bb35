"""What the OpenAPI document says, held to a server by Schemathesis: requests as it allows and as it forbids
them, with a key and without. No request makes the server fail, every answer is one that the document names,
and every error is a problem document.

``TUNESMITH_TEST_EXAMPLES=200`` asks for more than the few of each kind that every change is tested with.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import db_samples as samples
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from processes import server
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tunesmith.db import Scope, open_store
from tunesmith.frontend import operator
from tunesmith.schedule import Schedule
from tunesmith.tuning import workload_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
SCHEMA = checks.response_schema_conformance
ANSWERS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    SCHEMA,
]

examples = settings(
    max_examples=int(os.environ.get("TUNESMITH_TEST_EXAMPLES", "4")),
    deadline=None,
    derandomize="TUNESMITH_TEST_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
whole = schemathesis.openapi.from_path(DOCUMENT)
schema = whole.exclude(path="/v1/events")  # which has no end


@schemathesis.serializer("application/x-ndjson", "application/zip")
def as_it_is(context: Any, value: Any) -> Any:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@dataclass(frozen=True)
class Api:
    """A server that asks for keys, a key for everything, and what there is, by the names of parameters."""

    base_url: str
    secret: str
    there: dict[str, str]

    def ask(self, case: Any, *, with_key: bool = True) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}"} if with_key else None
        return case.call(base_url=self.base_url, headers=headers, timeout=60)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    url = f"sqlite:///{tmp_path_factory.mktemp('db')}/test.db"
    workload, _ = workload_of(operator("matmul(64,64,64)"))
    record = samples.record(workload=workload, schedule=Schedule().to_json(), schedule_hash=Schedule().hash)
    with open_store(url) as store:
        _, secret = store.keys.create("test", [Scope.ADMIN])
        key, _ = store.keys.create("another", [Scope.READ])
        store.add(record)
        model, _ = store.models.put("test", b"bytes", feature_schema=1, n_records=1, about={})
    with server(url, trial_s=0.02, require_key=1) as (_, http):
        body = {"operator": "matmul(64,64,64)", "trials": 8}
        job = http.post("/v1/jobs", json=body, headers={"Authorization": f"Bearer {secret}"}).json()["id"]
        there = {
            "job_id": job,
            "record_id": record.id,
            "workload_hash": workload.hash,
            "fingerprint": record.target.fingerprint,
            "model_id": model.id,
            "key_id": key.id,
        }
        yield Api(str(http.base_url), secret, there)


@schema.parametrize()
@examples
def test_as_documented(case: Any, api: Api) -> None:
    # Of an upload each record is refused for itself.
    looked_at = ANSWERS if case.path == "/v1/records" else [*ANSWERS, checks.negative_data_rejection]
    case.validate_response(api.ask(case), checks=looked_at)


@schema.include(path_regex=r"\{").parametrize()
@examples
def test_of_what_there_is(case: Any, api: Api) -> None:
    case.path_parameters = case.path_parameters | {
        name: value for name, value in api.there.items() if name in case.path_parameters
    }
    # A stream is a text in OpenAPI 3.1; Schemathesis has the description of its events in mind, as in 3.2.
    looked_at = [c for c in ANSWERS if c is not SCHEMA or not case.path.endswith("/events")]
    case.validate_response(api.ask(case), checks=looked_at)


@whole.parametrize()
@examples
def test_without_a_key(case: Any, api: Api) -> None:
    response = api.ask(case, with_key=False)
    case.validate_response(response, checks=ANSWERS)
    assert response.status_code in (400, 401, 429) or case.path in ("/livez", "/readyz")
