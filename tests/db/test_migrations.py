"""Databases with years of records come up to date: nothing is lost, and everything is found."""

import datetime as dt
from dataclasses import replace
from typing import Any

import db_samples as samples
import pytest
from old_databases import old_database

from tunesmith.db import JobState, Order, TaskState, open_store
from tunesmith.db.codec import record_row, target_row, workload_row
from tunesmith.db.revisions import REVISIONS
from tunesmith.records import Protocol, Record, new_id, utc_now

JOB = {
    "kind": "tune", "workload_id": samples.WORKLOAD.hash, "name": "matmul", "source": {"operator": "m"},
    "options": {"trials": 8}, "seed": 3, "owner": "", "n_trials": 4, "n_failed": 1, "updated_at": utc_now(),
    "created_at": utc_now(), "cancel_requested": False,
}  # fmt: skip


def of_job(job_id: str) -> list[Record]:
    """A fast cold one, two warm ones and a failure, a second apart; the last was the first to be added."""
    cold = Protocol(cache="cold")
    times: list[tuple[float | None, Protocol]] = [
        (1e-3, cold), (3e-3, Protocol()), (None, Protocol()), (2e-3, Protocol())
    ]  # fmt: skip
    start = utc_now()
    return [
        samples.record(
            time_s, protocol=how, job_id=job_id, trial=n, created_at=start - dt.timedelta(seconds=n)
        )
        for n, (time_s, how) in enumerate(times)
    ]


def rows(states: list[str], records: list[Record]) -> dict[str, list[dict[str, Any]]]:
    known = {"created_at": utc_now()}
    jobs = [
        {**JOB, "id": key, "state": state, "cancel_requested": state == "running", "best_record_id": None}
        for key, state in zip(dict.fromkeys(r.job_id for r in records), states, strict=True)
    ]
    counted = {"n_records": len(records), "n_failed": len(states)}
    return {
        "target": [{**target_row(samples.TARGET), **known}],
        "workload": [{**workload_row(samples.WORKLOAD), **known, **counted}],
        "job": jobs,
        "record": [record_row(r, samples.WORKLOAD, samples.TARGET) | {"job_id": r.job_id} for r in records],
    }


@pytest.mark.parametrize("revision", [r for r in REVISIONS if r in ("0001", "0002", "0003")])
def test_from_an_early_revision(url: str, revision: str) -> None:
    keys = {state: new_id() for state in ("queued", "running", "succeeded", "failed")}
    records = [r for key in keys.values() for r in of_job(key)]
    old_database(url, revision, rows(list(keys), records))
    with open_store(url) as store:
        assert {r.id: r for r in store.history(samples.WORKLOAD.hash, samples.TARGET.fingerprint)} == {
            r.id: r for r in records
        }
        assert {key: store.jobs.get(key).state for key in keys.values()} == {
            key: JobState(state) for state, key in keys.items()
        }
        assert store.jobs.get(keys["running"]).wanted is JobState.CANCELLED
        tasks = {state: store.jobs.tasks(key) for state, key in keys.items()}
        assert all(len(of) == 1 and of[0].n_trials == 4 for of in tasks.values())
        assert [tasks[state][0].state for state in keys] == [
            TaskState.WAITING, TaskState.RUNNING, TaskState.DONE, TaskState.FAILED
        ]  # fmt: skip
        for key in keys.values():
            fastest = store.records(job=key, order=Order.TIME).items
            assert [r.time_s for r in fastest] == [2e-3, 3e-3], "warm ones only"
        for cache, time_s in {"warm": 2e-3, "cold": 1e-3}.items():
            best = store.best(samples.WORKLOAD.hash, samples.TARGET, cache=cache)
            assert best is not None and best.time_s == time_s


def test_places_in_a_job_go_on_where_they_were(url: str) -> None:
    """Records of before places were counted got theirs by time, and the next one follows."""
    job = new_id()
    old_database(url, "0001", rows(["running"], of_job(job)))
    with open_store(url) as store:
        added = samples.record(job_id=job, schedule_hash="new")
        assert store.add(added)
        assert store.jobs.get(job).n_trials == 5
        seqs = store._database.read(lambda s: s.fetch("SELECT id, seq FROM record ORDER BY seq", {}))
        assert [row["seq"] for row in seqs] == [0, 1, 2, 3, 4]
        assert seqs[-1]["id"] == added.id


def test_opening_twice_changes_nothing_more(url: str) -> None:
    old_database(url, "0001", rows(["succeeded"], of_job(new_id())))
    with open_store(url) as store:
        first = store.records().items
    with open_store(url) as store:
        assert store.records().items == first
        assert store.add(replace(first[0], id=new_id(), job_id=None))
