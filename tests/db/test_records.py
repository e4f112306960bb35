"""Records come back as they went in, and are counted where they belong."""

import datetime as dt
import math
from dataclasses import replace

import db_samples as samples
import pytest

from tunesmith.db import Ambiguous, BadQuery, JobSpec, NotFound, Order, Store, open_store
from tunesmith.records import Measurement, Peaks, Status


def test_a_record_comes_back_whole(store: Store) -> None:
    record = samples.record()
    assert store.add(record)
    assert store.get(record.id) == record


def test_a_failure_comes_back_whole(store: Store) -> None:
    record = samples.record(None)
    store.add(record)
    assert store.get(record.id) == record


@pytest.mark.parametrize("error", [math.inf, -math.inf])
def test_infinite_errors_survive_json(store: Store, error: float) -> None:
    measurement = Measurement(Status.WRONG_ANSWER, (1e-3, math.inf), "off", max_error=error, tolerance=1e-5)
    record = samples.record(measurement=measurement)
    store.add(record)
    assert store.get(record.id).measurement == measurement


def test_nan_error_survives_json(store: Store) -> None:
    record = samples.record(measurement=Measurement(Status.WRONG_ANSWER, max_error=math.nan))
    store.add(record)
    found = store.get(record.id).measurement.max_error
    assert found is not None and math.isnan(found)


def test_errors_of_crashed_kernels_may_be_any_text(store: Store) -> None:
    record = samples.record(measurement=Measurement(Status.RUN_ERROR, error="a\0b \udcff é"))
    store.add(record)
    assert store.get(record.id).measurement.error == "a\N{REPLACEMENT CHARACTER}b ? é"
    for method in (store.records, store.summaries):
        assert method(workload="a\0").items == ()


def test_a_record_keeps_its_own_program_and_peaks(store: Store) -> None:
    """Programs with one hash may name their axes differently, and its schedule speaks of those names."""
    renamed = replace(samples.WORKLOAD, name="mm", program={"name": "mm", "stages": []})
    measured_again = samples.target(peaks=Peaks(140.0, 70.0, 380.0, 190.0, 28.0, 11.0))
    first, second = samples.record(), samples.record(workload=renamed, target=measured_again)
    store.add_all([first, second])
    assert store.get(first.id) == first
    assert store.get(second.id) == second
    assert store.workload(renamed.hash) == samples.WORKLOAD


def test_adding_twice_changes_nothing(store: Store) -> None:
    record = samples.record()
    assert store.add(record)
    assert not store.add(record)
    assert store.workloads().items[0].n_records == 1


def test_naive_times_are_refused(store: Store) -> None:
    with pytest.raises(Exception, match="no time zone"):
        store.add(samples.record(created_at=dt.datetime(2026, 1, 1)))
    assert store.history(samples.WORKLOAD.hash, samples.TARGET.fingerprint) == []


def test_times_of_other_zones_become_utc(store: Store) -> None:
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    record = samples.record(created_at=dt.datetime(2026, 1, 1, 3, tzinfo=zone))
    store.add(record)
    assert store.get(record.id).created_at.utcoffset() == dt.timedelta(0)
    assert store.get(record.id) == record


def test_all_or_none(store: Store) -> None:
    with pytest.raises(NotFound, match="job"):
        store.add_all([samples.record(), samples.record(job_id="nobody")])
    assert store.history(samples.WORKLOAD.hash, samples.TARGET.fingerprint) == []
    assert store.add(samples.record()), "what was undone must not be remembered as stored"


def test_abbreviated_ids(store: Store) -> None:
    first = samples.record(id="01890000-0000-7000-8000-000000000001")
    second = samples.record(id="01890000-0000-7000-8000-100000000002")
    store.add_all([first, second])
    assert store.get("01890000-0000-7000-8000-1") == second
    assert store.get("  01890000-0000-7000-8000-0".upper()) == first
    assert store.get(first.id) == first
    with pytest.raises(Ambiguous, match="more characters"):
        store.get("01890000")
    for missing in ("01890000-0000-7000-8000-2", "0189", "", "%" * 9, "zzzzzzzzz"):
        with pytest.raises(NotFound):
            store.get(missing)


def test_history_is_all_trials_of_one_pair_in_order(store: Store) -> None:
    mine = [samples.record(None if i % 3 == 0 else 1e-3, trial=i) for i in range(12)]
    others = [samples.record(workload=samples.workload(1)), samples.record(target=samples.target(threads=2))]
    store.add_all([*mine, *others])
    assert store.history(samples.WORKLOAD.hash, samples.TARGET.fingerprint) == mine


def test_workloads_count_and_show_what_is_served(store: Store) -> None:
    fast = samples.record(1e-3)
    store.add_all([samples.record(2e-3), fast, samples.record(None)])
    store.add_workload(samples.workload(7))
    untried, tried = store.workloads().items
    assert (untried.name, untried.n_records, untried.best_record_id) == ("matmul7", 0, None)
    assert (tried.n_records, tried.n_failed, tried.best_record_id) == (3, 1, fast.id)
    assert tried.best_gflops == pytest.approx(fast.gflops)
    assert store.workloads(structure="other").items == ()


def test_targets(store: Store) -> None:
    assert store.targets() == []
    store.add_target(samples.TARGET)
    store.add_target(samples.TARGET)
    assert store.targets() == [samples.TARGET]
    assert store.target(samples.TARGET.fingerprint) == samples.TARGET
    assert store.target("unknown") is None


def test_a_trial_is_counted_in_its_job(store: Store) -> None:
    job, _ = store.jobs.create(JobSpec(samples.WORKLOAD, {}, {}, trials=10))
    slow, fast = samples.record(2e-3, job_id=job.id), samples.record(1e-3, job_id=job.id)
    for record in (slow, fast, samples.record(None, job_id=job.id), samples.record(3e-3, job_id=job.id)):
        store.add(record)
        store.add(record)
    job = store.jobs.get(job.id)
    assert (job.n_trials, job.n_failed, job.best_record_id) == (4, 1, fast.id)
    assert (job.best_s, job.best_gflops) == (fast.time_s, pytest.approx(fast.gflops))
    assert job.version == 5


def test_filters(store: Store) -> None:
    job, _ = store.jobs.create(JobSpec(samples.WORKLOAD, {}, {}, trials=10))
    elsewhere = samples.target(threads=2)
    records = [
        samples.record(1e-3, job_id=job.id),
        samples.record(None),
        samples.record(2e-3, target=elsewhere),
        samples.record(3e-3, workload=samples.workload(1)),
    ]
    store.add_all(records)

    def found(**filters: object) -> list[int]:
        page = store.records(**filters)  # type: ignore[arg-type]
        assert [r.id for r in page.items] == [s.id for s in store.summaries(**filters).items]  # type: ignore[arg-type]
        return [records.index(r) for r in page.items]

    assert found() == [3, 2, 1, 0]
    assert found(workload=samples.WORKLOAD.hash) == [2, 1, 0]
    assert found(target=elsewhere.fingerprint) == [2]
    assert found(job=job.id) == [0]
    assert found(status=Status.RUN_ERROR) == [1]
    assert found(workload=samples.WORKLOAD.hash, order=Order.TIME) == [0, 2]
    assert found(workload="none") == []
    with pytest.raises(BadQuery, match="needs a workload"):
        store.records(order=Order.TIME)
    with pytest.raises(BadQuery, match="limit"):
        store.records(limit=0)


def test_summaries(store: Store) -> None:
    record = samples.record(None)
    store.add(record)
    (summary,) = store.summaries().items
    assert (summary.id, summary.status, summary.time_s) == (record.id, Status.RUN_ERROR, None)
    assert (summary.workload_name, summary.error) == ("matmul", "the kernel crashed")
    assert summary.created_at == record.created_at


def test_a_reader_sees_what_another_process_would(store: Store, url: str) -> None:
    record = samples.record()
    store.add(record)
    with open_store(url, create=False, read_only=True) as reader:
        assert reader.get(record.id) == record
