"""Records, the best of them, and what is built from them."""

import hashlib
import json
import math
from typing import Any

import db_samples as samples
import pytest

from tunesmith.frontend import operator
from tunesmith.records import Measurement, Status, Target
from tunesmith.schedule import Schedule
from tunesmith.tuning import explain_record, workload_of

MATMUL, _ = workload_of(operator("matmul(64,64,64)"))
OTHER_CPU = samples.target(cpu="icelake-server")


@pytest.fixture
def service(start: Any) -> Any:
    with start(run_jobs=False) as service:
        yield service


def test_lists(service: Any) -> None:
    records = [samples.record(2e-3), samples.record(1e-3), samples.record(None)]
    service.store.add_all(records)
    service.store.add(samples.record(workload=MATMUL))
    workload = samples.WORKLOAD.hash

    def found(**params: Any) -> list[int]:
        items = service.http.get("/v1/records", params={"workload": workload} | params).json()["items"]
        ids = [r.id for r in records]
        return [ids.index(item["id"]) for item in items]

    assert found() == [2, 1, 0]
    assert found(order="time") == [1, 0]
    assert found(status="run_error") == [2]
    assert found(target=samples.TARGET.fingerprint) == [2, 1, 0]
    assert found(job="none") == []
    page = service.http.get("/v1/records", params={"limit": 3}).json()
    rest = service.http.get("/v1/records", params={"limit": 3, "cursor": page["next_cursor"]}).json()
    assert (len(page["items"]), len(rest["items"]), rest["next_cursor"]) == (3, 1, None)
    failed = service.http.get("/v1/records", params={"status": "run_error"}).json()["items"][0]
    assert (failed["time_s"], failed["error"]) == (None, "the kernel crashed")


@pytest.mark.parametrize(
    ("params", "status", "slug"),
    [
        ({"order": "time"}, 400, "bad-query"),
        ({"cursor": "x"}, 400, "bad-cursor"),
        ({"limit": "501"}, 422, "invalid-request"),
        ({"status": "fine"}, 422, "invalid-request"),
    ],
)
def test_queries_that_cannot_be_answered(
    service: Any, params: dict[str, str], status: int, slug: str
) -> None:
    answer = service.http.get("/v1/records", params=params)
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:tunesmith:problem:{slug}")


def test_a_whole_record(service: Any) -> None:
    record = samples.record(1e-3)
    service.store.add(record)
    view = service.http.get(f"/v1/records/{record.id}").json()
    assert view["schedule"] == record.schedule
    assert view["workload"]["program"] == record.workload.program
    assert view["target"]["fingerprint"] == record.target.fingerprint
    assert view["target"]["peaks"]["f32_gflops"] == 150.0
    assert view["measurement"]["times_s"] == list(record.measurement.times_s)
    assert view["measurement"]["time_s"] == record.time_s
    assert view["protocol"]["cache"] == "warm" and view["versions"] == record.versions
    assert service.http.get(f"/v1/records/{record.id[:20]}").json() == view


def test_numbers_that_json_lacks(service: Any) -> None:
    broken = Measurement(Status.WRONG_ANSWER, (1e-3, math.inf), "off", max_error=math.nan)
    record = samples.record(measurement=broken)
    service.store.add(record)
    answer = service.http.get(f"/v1/records/{record.id}")
    assert answer.status_code == 200
    assert answer.json()["measurement"]["max_error"] is None
    assert answer.json()["measurement"]["times_s"] == [1e-3, None]


def test_unknown_and_ambiguous_records(service: Any) -> None:
    for n in "12":
        service.store.add(samples.record(id=f"01890000-0000-7000-8000-00000000000{n}"))
    for key, slug in (("nobody-here", "not-found"), ("0189", "not-found"), ("01890000", "ambiguous-id")):
        answer = service.http.get(f"/v1/records/{key}")
        assert (answer.status_code, answer.json()["type"]) == (404, f"urn:tunesmith:problem:{slug}")


def test_why_a_record_takes_its_time(service: Any) -> None:
    record = samples.record(1e-3, workload=MATMUL, schedule=Schedule().to_json())
    service.store.add(record)
    answer = service.http.get(f"/v1/records/{record.id}/explanation")
    assert answer.status_code == 200, answer.text
    assert answer.json() == json.loads(json.dumps(explain_record(record, service.store).to_json()))
    assert answer.json()["measured_s"] == 1e-3
    failed = samples.record(None, workload=MATMUL, schedule=Schedule().to_json())
    service.store.add(failed)
    assert service.http.get(f"/v1/records/{failed.id}/explanation").json()["measured_s"] is None


def test_a_schedule_of_another_version_is_not_explained(service: Any) -> None:
    record = samples.record(workload=MATMUL, schedule={"version": 99, "steps": []})
    service.store.add(record)
    answer = service.http.get(f"/v1/records/{record.id}/explanation")
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:tunesmith:problem:unprocessable")
    assert "version" in answer.json()["detail"]
    assert service.http.get("/v1/records/nobody-here/explanation").status_code == 404


def test_best(service: Any) -> None:
    here, there = (
        samples.record(2e-3, workload=MATMUL),
        samples.record(1e-3, workload=MATMUL, target=OTHER_CPU),
    )
    service.store.add_all([here, there])
    service.store.add_target(samples.target(model="Xeon 2"))

    def best(**params: str) -> tuple[str, str]:
        view = service.http.get("/v1/best", params=params).json()
        return view["record"]["id"], view["match"]

    assert best(workload=MATMUL.hash) == (there.id, "any")
    assert best(operator="matmul(64,64,64)") == (there.id, "any")
    assert best(operator="matmul(64,64,64)", target=samples.TARGET.fingerprint) == (here.id, "exact")
    similar = samples.target(model="Xeon 2").fingerprint
    assert best(workload=MATMUL.hash, target=similar) == (here.id, "same_cpu")
    text = "def mm(p: f32[64, 64], q: f32[64, 64]):\n    r[i, j] = sum(p[i, k] * q[k, j], k)\n    return r\n"
    view = service.http.post("/v1/best", json={"program": text, "target": OTHER_CPU.fingerprint}).json()
    assert (view["record"]["id"], view["match"]) == (there.id, "exact")
    assert view["time_s"] == 1e-3 and not view["raced"]
    assert view["gflops"] == pytest.approx(MATMUL.flops / 1e6, rel=1e-3)
    assert view["peak_fraction"] == pytest.approx(view["gflops"] / 150.0)


def test_best_for_a_target_that_is_sent(service: Any) -> None:
    """A machine that nothing was ever measured on gets the closest answer, and is told how close."""
    here, there = (
        samples.record(2e-3, workload=MATMUL),
        samples.record(1e-3, workload=MATMUL, target=OTHER_CPU),
    )
    service.store.add_all([here, there])

    def ask(target: Any, **more: Any) -> Any:
        body = {"workload": MATMUL.hash, "target": target, **more}
        return service.http.post("/v1/best", json=body)

    def best(target: Target) -> tuple[str, str]:
        view = ask(target.to_json()).json()
        return view["record"]["id"], view["match"]

    assert best(OTHER_CPU) == (there.id, "exact")
    assert best(samples.target(model="Xeon 2")) == (here.id, "same_cpu")
    assert best(samples.target(cpu="unheard-of")) == (there.id, "same_arch")
    assert ask(samples.target(triple="riscv64-linux-gnu").to_json()).status_code == 404
    served = service.http.get(f"/v1/targets/{OTHER_CPU.fingerprint}").json()
    assert ask(served).json()["match"] == "exact", "what the API gives may be sent back as it is"
    unknown = ask("0123456789abcdef")
    assert unknown.status_code == 404 and "whole target" in unknown.json()["detail"]
    document = samples.TARGET.to_json()
    broken = ask({**document, "cores": 0}).json()
    assert [e["name"] for e in broken["errors"]] == ["target.document.cores"]
    peaks = {**document["peaks"], "f32_gflops": 1e30}
    dream = {**document, "model": "Dream", "peaks": peaks}
    assert ask(dream).json()["match"] == "same_cpu"
    unbelievable = {"operator": "matmul(2,2,2)", "target": dream, "near": True}
    refused = service.http.post("/v1/best", json=unbelievable)
    assert refused.status_code == 422 and "no core" in refused.json()["detail"]
    two = {"workload": "x", "operator": "matmul(2,2,2)"}
    assert service.http.post("/v1/best", json=two).status_code == 422


def test_no_best(service: Any) -> None:
    service.store.add(samples.record(None, workload=MATMUL))
    for params in ({"workload": "x"}, {"workload": MATMUL.hash}, {"operator": "matmul(64,64,64)"}):
        answer = service.http.get("/v1/best", params=params)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:tunesmith:problem:not-found")
        assert "submit a job" in answer.json()["detail"]
    for wrong in ({}, {"workload": "x", "operator": "matmul(1,1,1)"}, {"operator": "matmul("}):
        assert service.http.get("/v1/best", params=wrong).status_code == 422


@pytest.mark.parametrize(
    ("kind", "media", "file"),
    [
        ("llvm", "text/plain; charset=utf-8", "matmul.ll"),
        ("asm", "text/plain; charset=utf-8", "matmul.s"),
        ("header", "text/plain; charset=utf-8", "matmul.h"),
        ("object", "application/octet-stream", "matmul.o"),
        ("library", "application/octet-stream", "libmatmul.so"),
    ],
)
def test_artifacts(service: Any, kind: str, media: str, file: str) -> None:
    record = samples.record()
    service.store.add(record)
    path = f"/v1/records/{record.id}/artifacts/{kind}"
    answer = service.http.get(path)
    assert answer.status_code == 200
    assert answer.content == f"{kind} of {record.id}\n".encode()
    assert answer.headers["content-type"] == media
    assert answer.headers["content-disposition"] == f'attachment; filename="{file}"'
    assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
    assert service.store.artifacts.get(record.id, kind).data == answer.content
    same = service.http.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")


def test_artifacts_that_cannot_be(service: Any) -> None:
    failed = samples.record(None)
    service.store.add(failed)
    answer = service.http.get(f"/v1/records/{failed.id}/artifacts/asm")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tunesmith:problem:trial-failed")
    assert service.http.get(f"/v1/records/{failed.id}/artifacts/exe").status_code == 422
    assert service.http.get("/v1/records/nobody-here/artifacts/asm").status_code == 404


def test_names_from_strangers_do_not_reach_headers(service: Any) -> None:
    record = samples.record(workload=samples.replace(samples.WORKLOAD, name='a"\r\nX-Evil: 1/../b'))
    service.store.add(record)
    answer = service.http.get(f"/v1/records/{record.id}/artifacts/asm")
    assert answer.headers["content-disposition"] == 'attachment; filename="a___X_Evil__1____b.s"'
    assert "x-evil" not in answer.headers


def test_workloads_and_targets(service: Any) -> None:
    assert service.http.get("/v1/targets").json() == {"items": [], "next_cursor": None}
    service.store.add_all([samples.record(), samples.record(workload=MATMUL)])
    (target,) = service.http.get("/v1/targets").json()["items"]
    assert (target["fingerprint"], target["cpu"]) == (samples.TARGET.fingerprint, "sapphirerapids")
    assert service.http.get(f"/v1/targets/{target['fingerprint']}").json() == target
    assert service.http.get("/v1/targets/x").status_code == 404
    page = service.http.get("/v1/workloads").json()
    one = service.http.get(f"/v1/workloads/{MATMUL.hash}")
    assert one.json() in page["items"]
    known = {"If-None-Match": one.headers["etag"]}
    assert service.http.get(f"/v1/workloads/{MATMUL.hash}", headers=known).status_code == 304
    assert service.http.get("/v1/workloads/x").status_code == 404
    assert {(w["hash"], w["n_records"]) for w in page["items"]} == {
        (MATMUL.hash, 1),
        (samples.WORKLOAD.hash, 1),
    }
    same = service.http.get("/v1/workloads", params={"structure": MATMUL.structure}).json()["items"]
    assert [w["hash"] for w in same] == [MATMUL.hash]
