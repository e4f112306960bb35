"""`explain`: where the time of a record goes, or of what the model would try first."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from cli_samples import TARGET, fill, make_record

from tunesmith.frontend import operator
from tunesmith.ir import canonical, parse
from tunesmith.records import Record, Status
from tunesmith.schedule import Schedule
from tunesmith.search import derive
from tunesmith.search.default import default_schedule
from tunesmith.tuning import workload_of

MEMBERS = {
    "name", "workload", "target", "threads", "record", "trial", "status", "measured_s", "model", "prior_s",
    "predicted_s", "bound", "registers", "stages", "pretrained", "learnt", "advice",
}  # fmt: skip
STAGE = {
    "name", "formula", "is_copy", "reduces", "reuses", "time_s", "share", "binding", "runner_up", "margin",
    "terms", "loads_per_fma", "accumulators", "unrolled", "passes", "parallel", "lanes_used", "wasted",
}  # fmt: skip
CORRECTION = {"change", "constant", "effects", "rest", "trials"}
TERMS = ["arithmetic", "loads", "stores", "latency", "spills", "overhead", "l1", "l2", "l3"]
SCALAR = "def total(a: f32[1000]):\n    y = sum(a[i], i)\n    return y\n"
ELEMENTWISE = "def scaled(a: f32[1000]):\n    return exp(a) * 2.0\n"


def record_of(text: str, schedule: Schedule | None = None, time_s: float = 1e-4, **changes: Any) -> Record:
    program = parse(text) if text.startswith("def") else operator(text)
    workload, form = workload_of(program)
    schedule = schedule or default_schedule(form, TARGET)
    record = make_record(time_s, workload=workload, status=changes.pop("status", Status.OK))
    return dataclasses.replace(record, schedule=schedule.to_json(), schedule_hash=schedule.hash, **changes)


def shape_of(found: dict[str, Any]) -> None:
    """What every explanation has, whatever is explained."""
    assert set(found) == MEMBERS
    assert set(found["bound"]) == {"time_s", "by", "times_s", "flops", "bytes"}
    assert list(found["bound"]["times_s"]) == ["arithmetic", "l1", "l2", "l3", "memory"]
    for stage in found["stages"]:
        assert set(stage) == STAGE
        assert list(stage["terms"]) == TERMS
        assert all(set(t) == {"alone_s", "adds_s", "saves_s"} for t in stage["terms"].values())
    for correction in (found["pretrained"], found["learnt"]):
        assert correction is None or set(correction) == CORRECTION
    assert all(set(a) == {"stage", "term", "saves", "text"} for a in found["advice"])


@pytest.mark.parametrize(
    "text", ["matmul(64,64,64)", "attention(h=2,m=16,d=16)", "norm(1,32,32)", SCALAR, ELEMENTWISE]
)
def test_records_are_explained(run, database: str, text: str) -> None:
    record = record_of(text)
    fill(database, record)
    found = json.loads(run("explain", record.id, "--db", database, "--json").out)
    shape_of(found)
    assert (found["record"], found["status"], found["measured_s"]) == (record.id, "ok", pytest.approx(1e-4))
    assert sum(s["time_s"] for s in found["stages"]) == pytest.approx(found["prior_s"])
    shown = run("explain", record.id, "--db", database)
    assert shown.code == 0
    assert f"{record.workload.name}: 100 µs measured" in shown.out
    assert f"record {record.id}" in shown.out
    assert "roofline:" in shown.out and "to go faster:" in shown.out and "*" in shown.out


def test_a_source_is_its_best_record(run, known_target, database: str) -> None:
    slow = record_of("matmul(64,64,64)", time_s=3e-4)
    fast = record_of("matmul(64,64,64)", Schedule(), 2e-4)
    fill(database, slow, fast)
    found = json.loads(run("explain", "matmul(64,64,64)", "--db", database, "--json").out)
    assert (found["record"], found["measured_s"]) == (fast.id, pytest.approx(2e-4))
    by_hash = json.loads(run("explain", fast.workload.hash, "--db", database, "--json").out)
    assert by_hash == found


def test_a_source_without_records_is_a_prediction(run, known_target, database: str, tmp_path: Path) -> None:
    fill(database)
    file = tmp_path / "scaled.py"
    file.write_text(ELEMENTWISE)
    shown = run("explain", str(file), "--db", database)
    assert shown.code == 0
    assert "a prediction: nothing is measured yet" in shown.out
    assert "measured," not in shown.out
    found = json.loads(run("explain", str(file), "--db", database, "--json").out)
    shape_of(found)
    assert [found[k] for k in ("record", "trial", "status", "measured_s", "learnt")] == [None] * 5


def test_names_are_those_of_the_program(run, database: str) -> None:
    record = record_of("def dense(x: f32[32, 16], w: f32[16, 24]):\n    return x @ w\n", Schedule())
    fill(database, record)
    stage = json.loads(run("explain", record.id, "--db", database, "--json").out)["stages"][0]
    assert stage["formula"].startswith("out[i0, i1] = sum(x[i0, r0] * w[r0, i1], r0)")


def test_other_trials_of_the_program_are_learnt_from(run, database: str) -> None:
    form = canonical(operator("matmul(64,64,64)"))
    sketch = derive(form, TARGET).sketches[0]
    rows = {tuple(min(n, len(k.values) - 1) for k in sketch.knobs) for n in range(20)}
    rows |= {tuple(n * j % len(k.values) for j, k in enumerate(sketch.knobs)) for n in range(30)}
    schedules = [sketch.decode(row) for row in sorted(rows)]
    assert len(schedules) > 16
    records = [record_of("matmul(64,64,64)", s, 1e-4 * (n + 1)) for n, s in enumerate(schedules)]
    failed = record_of("matmul(64,64,64)", status=Status.RUN_ERROR)
    unread = dataclasses.replace(record_of("matmul(64,64,64)"), schedule={"version": 99}, schedule_hash="9")
    fill(database, failed, unread, *records)
    found = json.loads(run("explain", records[0].id, "--db", database, "--json").out)
    shape_of(found)
    assert found["learnt"]["trials"] == len(records) - 1
    assert set(found["learnt"]["effects"][0]) == {"feature", "phrase", "value", "change"}
    shown = run("explain", records[0].id, "--db", database).out
    assert f"from {len(records) - 1} other trials of this program" in shown


def test_a_failed_trial_is_explained_without_a_time(run, database: str) -> None:
    record = record_of("matmul(64,64,64)", status=Status.RUN_ERROR)
    fill(database, record)
    found = json.loads(run("explain", record.id, "--db", database, "--json").out)
    assert (found["status"], found["measured_s"]) == ("run_error", None)
    assert "failed: run_error" in run("explain", record.id, "--db", database).out


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ({"version": 99, "steps": []}, "its schedule is not one of version"),
        ({"version": 1, "steps": [["vectorize", "nothing", "i"]]}, "cannot be explained"),
    ],
)
def test_a_schedule_of_another_version_is_refused_with_the_reason(
    run, database: str, schedule: dict[str, Any], reason: str
) -> None:
    record = dataclasses.replace(record_of("matmul(64,64,64)"), schedule=schedule)
    fill(database, record)
    outcome = run("explain", record.id, "--db", database)
    assert (outcome.code, outcome.out) == (1, "")
    assert record.id in outcome.err and reason in outcome.err
    assert "Traceback" not in outcome.err
    assert json.loads(run("explain", record.id, "--db", database, "--json").out)["error"]["exit_code"] == 1


def test_what_is_not_known_is_exit_3(run, known_target, database: str) -> None:
    fill(database)
    assert run("explain", "0123456789abcdef", "--db", database).code == 3
    assert run("explain", "01900000-0000-7000-8000-000000000000", "--db", database).code == 3
