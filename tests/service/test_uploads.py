"""Measurements and models from elsewhere: what is taken, and why not."""

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import db_samples as samples
import pytest

from tunesmith.costmodel.model import SHIPPED
from tunesmith.frontend import operator
from tunesmith.records import Measurement, Record, Status
from tunesmith.schedule import Schedule
from tunesmith.tuning import workload_of

MATMUL, _ = workload_of(operator("matmul(64,64,64)"))
SCHEDULE = Schedule()


@pytest.fixture
def service(start: Any) -> Iterator[Any]:
    with start(run_jobs=False) as service:
        yield service


def record(time_s: float | None = 1e-3, **changes: Any) -> Record:
    given = {"workload": MATMUL, "schedule": SCHEDULE.to_json(), "schedule_hash": SCHEDULE.hash}
    return samples.record(time_s, **{**given, **changes})


def document(made: Record) -> dict[str, Any]:
    """As a service gives it."""
    from tunesmith.service.views import record_view

    return json.loads(record_view(made).model_dump_json())  # type: ignore[no-any-return]


def upload(service: Any, *documents: Any, **headers: str) -> Any:
    answer = service.http.post("/v1/records", json={"records": list(documents)}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_one_service_gives_another_takes(service: Any) -> None:
    made = [record(1e-3), record(2e-3), record(None)]
    answer = upload(service, *map(document, made))
    assert (answer["new"], answer["known"], answer["refused"]) == (3, 0, 0)
    for sent in made:
        stored = service.store.get(sent.id)
        versions = {**sent.versions, "uploaded_by": "local"}
        assert stored == replace(sent, versions=versions, workload=stored.workload)
    best = service.http.get("/v1/best", params={"workload": MATMUL.hash}).json()
    assert best["record"]["id"] == made[0].id
    again = upload(service, *map(document, made))
    assert (again["new"], again["known"], again["refused"]) == (0, 3, 0)
    assert service.http.get(f"/v1/workloads/{MATMUL.hash}").json()["n_records"] == 3


def test_lines_are_taken_too(service: Any) -> None:
    text = "\n".join(json.dumps(document(record(t))) for t in (1e-3, 2e-3)) + "\n\n"
    kind = {"Content-Type": "application/x-ndjson"}
    answer = service.http.post("/v1/records", content=text.encode(), headers=kind)
    assert answer.json()["new"] == 2


def test_one_that_is_refused_does_not_keep_the_others_out(service: Any) -> None:
    good = document(record())
    answer = upload(service, {"id": "x"}, good, 7, good, document(record(1e-12)))
    statuses = [item["status"] for item in answer["items"]]
    assert statuses == ["refused", "new", "refused", "known", "refused"]
    assert (answer["new"], answer["known"], answer["refused"]) == (1, 1, 3)


def changed(path: str, value: Any) -> dict[str, Any]:
    sent = document(record())
    *above, last = path.split(".")
    place = sent
    for name in above:
        place = place[name]
    place[last] = value
    return sent


FUTURE = "2999-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("measurement.times_s", [1e-9], "faster than the roofline"),
        ("measurement.times_s", [1e-3, 1e-9], "faster than the roofline"),
        ("measurement.times_s", [], "has times"),
        ("measurement.times_s", [None], "finite"),
        ("measurement.times_s", [-1.0], "positive"),
        ("measurement.times_s", [0.1] * 10_001, "10000"),
        ("measurement.status", "splendid", "status"),
        ("measurement.error", "but", "no error"),
        ("measurement.drift", 0, "drift"),
        ("created_at", FUTURE, "future"),
        ("created_at", "2026-01-01T00:00:00", "zone"),
        ("id", "1", "pattern"),
        ("id", "01890000-0000-4000-8000-000000000001", "pattern"),
        ("schedule", {"version": 1, "steps": [["split", "i", 16]]}, ""),
        ("schedule", {}, ""),
        ("schedule.steps", [{"kind": "parallel", "stage": "nobody", "variable": "x"}], ""),
        ("target.peaks.f32_gflops", 1e9, "no core does more"),
        ("target.peaks.l1_gbs", 1e9, "no core reads more"),
        ("target.threads", 0, "threads"),
        ("target", None, "target"),
        ("workload.program", {}, ""),
        ("workload.program", {"name": "f", "stages": []}, ""),
        ("trial", -1, "trial"),
        ("protocol.cache", "lukewarm", "cache"),
    ],
)
def test_what_cannot_be_true_is_refused(service: Any, path: str, value: Any, why: str) -> None:
    answer = upload(service, changed(path, value))
    (item,) = answer["items"]
    assert item["status"] == "refused" and why in item["detail"], item
    assert service.http.get("/v1/records").json()["items"] == []


def test_a_known_target_keeps_its_peaks(service: Any) -> None:
    """Whoever claims a faster machine cannot make impossible times possible by that."""
    service.store.add_target(samples.TARGET)
    peaks = replace(samples.TARGET.peaks, f32_gflops=1000.0, l1_gbs=1000.0, l2_gbs=900.0)
    time_s = MATMUL.flops / 500e9
    boast = document(record(time_s, target=replace(samples.TARGET, peaks=peaks)))
    assert upload(service, boast)["refused"] == 1
    honest = document(record(MATMUL.flops / 100e9, target=replace(samples.TARGET, peaks=peaks)))
    assert upload(service, honest)["new"] == 1
    assert service.store.get(honest["id"]).target.peaks == samples.TARGET.peaks


def test_a_wrong_answer_is_not_ok(service: Any) -> None:
    wrong = Measurement(Status.OK, (1e-3,), max_error=1.0, tolerance=1e-6)
    assert upload(service, document(record(measurement=wrong)))["refused"] == 1


def test_an_id_is_one_records(service: Any) -> None:
    first = record()
    upload(service, document(first))
    other, _ = workload_of(operator("matmul(32,32,32)"))
    answer = upload(service, document(record(id=first.id, workload=other)))
    assert answer["items"][0]["detail"] == "the id is that of another record"


def test_an_upload_takes_effect_once(service: Any) -> None:
    sent, key = document(record()), {"Idempotency-Key": "k"}
    first = upload(service, sent, **key)
    assert upload(service, sent, **key) == first, "the same answer, not that it is known"
    other = service.http.post("/v1/records", json={"records": []}, headers=key)
    assert other.status_code == 422


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 100_000, b'{"records": 7}', b'{"records": [], "x": 1}', b"\xff"]
)
def test_bodies_that_make_no_sense(service: Any, body: bytes) -> None:
    answer = service.http.post("/v1/records", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and answer.headers["content-type"] == "application/problem+json"


def test_too_many_at_once(service: Any) -> None:
    answer = service.http.post("/v1/records", json={"records": [1] * 501})
    assert answer.status_code == 422 and "at most 500" in answer.json()["detail"]


# -- models -------------------------------------------------------------------------------------------------


def send(service: Any, data: bytes, name: str = "mine") -> Any:
    kind = {"Content-Type": "application/zip"}
    return service.http.post("/v1/models", params={"name": name}, content=data, headers=kind)


def test_a_model_comes_back_as_it_was_sent(service: Any) -> None:
    made = send(service, SHIPPED.read_bytes())
    assert made.status_code == 201, made.text
    view = made.json()
    assert view["n_records"] > 0 and view["size_bytes"] == SHIPPED.stat().st_size
    assert send(service, SHIPPED.read_bytes(), "other").json() == view
    data = service.http.get(f"/v1/models/{view['id']}/data")
    assert data.content == SHIPPED.read_bytes()
    known = {"If-None-Match": data.headers["etag"]}
    assert service.http.get(f"/v1/models/{view['id']}/data", headers=known).status_code == 304
    one = service.http.get(f"/v1/models/{view['id']}")
    assert one.json() == view and service.http.get("/v1/models").json()["items"] == [view]
    assert service.http.get("/v1/models", params={"name": "other"}).json()["items"] == []


def archive(about: bytes, trees: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("about.json", about)
        made.writestr("trees.ubj", trees)
    return buffer.getvalue()


def damaged() -> dict[str, bytes]:
    with zipfile.ZipFile(SHIPPED) as shipped:
        about, trees = shipped.read("about.json"), shipped.read("trees.ubj")
    return {
        "half the trees": archive(about, trees[: len(trees) // 2]),
        "nesting": archive(b"[" * 200_000, trees),
        "a bomb": archive(about, bytes(100 << 20)),
        "pickle": b"\x80\x04cos\nsystem\n(S'touch /tmp/never'\ntR.",
    }


@pytest.mark.parametrize("what", ["half the trees", "nesting", "a bomb", "pickle"])
def test_files_that_are_no_model(service: Any, what: str) -> None:
    answer = send(service, damaged()[what])
    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "urn:tunesmith:problem:unprocessable"
    assert "/tmp" not in answer.json()["detail"]
    assert service.http.get("/v1/models").json()["items"] == []


def test_a_file_larger_than_any_model(service: Any) -> None:
    assert send(service, bytes((1 << 20) + 1)).status_code == 413


def test_an_upload_cannot_call_itself_an_observation(service: Any) -> None:
    """Times of observations are held against nothing, since they are never served; models learn from them."""
    lie = document(record(1e-12, versions={"tunesmith": "0", "imported_from": "tvm"}))
    answer = upload(service, lie)
    assert (answer["new"], answer["refused"]) == (0, 1)
    assert service.store.summaries().items == ()
