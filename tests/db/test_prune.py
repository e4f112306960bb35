"""What is old goes, unless something needs it; counts stay right, also when the act is killed."""

import datetime as dt
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import db_samples as samples
from test_plans import indices, plan, walks

from tunesmith.db import JobSpec, JobState, Store, Verb, open_store
from tunesmith.db.prune import Pruned
from tunesmith.db.requests import Answered
from tunesmith.records import Protocol, Record, utc_now

OLD = utc_now() - dt.timedelta(days=100)
DAYS_90 = dt.timedelta(days=90)
HASH, FINGERPRINT = samples.WORKLOAD.hash, samples.TARGET.fingerprint


def old(time_s: float | None = 1e-3, **changes: Any) -> Record:
    return samples.record(time_s, **{"created_at": OLD, **changes})


def left(store: Store) -> set[str]:
    return {stored.record.id for stored in store.export()}


def test_what_nothing_needs_goes(store: Store) -> None:
    best, slow, broken = old(1e-3), old(2e-3), old(None)
    young, young_broken = samples.record(3e-3), samples.record(None)
    store.add_all([best, slow, broken, young, young_broken])
    dry = store.prune(DAYS_90, dry_run=True)
    assert dry == Pruned(records=2, failed=1, kept=1) and len(left(store)) == 5
    assert store.prune(DAYS_90) == dry
    assert left(store) == {best.id, young.id, young_broken.id}
    summary = store.workload_summary(HASH)
    assert (summary.n_records, summary.n_failed, summary.best_record_id) == (3, 1, best.id)
    assert store.prune(DAYS_90) == Pruned(kept=1)


def test_failures_alone(store: Store) -> None:
    slow = old(2e-3)
    store.add_all([old(1e-3), slow, old(None)])
    assert store.prune(DAYS_90, failed_only=True) == Pruned(records=1, failed=1)
    assert slow.id in left(store)


def test_all_that_is_served_stays(store: Store) -> None:
    """The best of every workload, target and state of the caches."""
    other, cold = samples.target(cpu="icelake-server"), Protocol(cache="cold")
    best = [old(t, target=on, workload=of, protocol=how) for t, on, of, how in [
        (1e-3, samples.TARGET, samples.WORKLOAD, Protocol()), (5e-3, other, samples.WORKLOAD, Protocol()),
        (6e-3, samples.TARGET, samples.workload(7), Protocol()),
        (7e-3, samples.TARGET, samples.WORKLOAD, cold),
    ]]  # fmt: skip
    store.add_all([*best, *(replace(old(1), **of) for of in (
        {"target": other}, {"workload": samples.workload(7)}, {"protocol": cold}, {}
    ))])  # fmt: skip
    assert store.prune(DAYS_90).records == 4
    assert left(store) == {record.id for record in best}


def test_whatever_raced_stays(store: Store) -> None:
    first, second, third = old(3e-3), old(2e-3), old(1e-3)
    store.add_all([first, second, third, old(4e-3)])
    store.set_race({first.id: 1e-3, second.id: 2e-3})
    store.set_race({first.id: 1e-3})
    assert store.prune(DAYS_90).records == 2, "second raced once; third is not served, since first raced"
    assert left(store) == {first.id, second.id}


def test_what_others_name_stays(store: Store) -> None:
    built, seen = old(2e-3), old(3e-3, versions={"imported_from": "ansor"})
    store.add_all([old(1e-3), built, seen, old(4e-3)])
    store.artifacts.put(built.id, "asm", b"ret")
    running, done = (store.jobs.create(JobSpec(samples.WORKLOAD, {}, {}, 8))[0].id for _ in range(2))
    of_running = [old(5e-3, job_id=running), old(None, job_id=running)]
    of_done = [old(5e-3, job_id=done), old(6e-3, job_id=done), old(None, job_id=done)]
    store.add_all([*of_running, *of_done])
    store.jobs.ask(done, Verb.CANCEL)
    assert store.jobs.get(done).state is JobState.CANCELLED
    store.prune(DAYS_90)
    kept = left(store)
    assert {built.id, seen.id, *(r.id for r in of_running)} <= kept
    assert of_done[0].id in kept, "the job names it as its best"
    assert not {of_done[1].id, of_done[2].id} & kept and len(kept) == 6


def test_events_requests_and_usage(store: Store) -> None:
    now = utc_now()
    store._clock = store.events._clock = store.jobs._clock = store.requests._clock = lambda: OLD
    job = store.jobs.create(JobSpec(samples.WORKLOAD, {}, {}, 8))[0]
    store.requests.begin("me", "k", "x")
    store.requests.finish("me", "k", Answered(200, {}))
    store.requests.spend("me", records=3)
    store._clock = store.jobs._clock = store.requests._clock = lambda: now
    store.requests.spend("me", records=4)
    wanted = Pruned(events=1, requests=1, usage=1)
    assert store.prune(DAYS_90, dry_run=True) == wanted
    assert store.prune(DAYS_90, failed_only=True) == Pruned()
    assert store.prune(DAYS_90) == wanted
    assert store.events.after(0, job_id=job.id) == [] and store.requests.usage("me").records == 4


def test_writers_go_on_meanwhile(store: Store) -> None:
    store.add_all(old(None) for _ in range(1500))
    store.add_all(old(t / 1000) for t in range(1, 400))
    ended = False

    def write() -> int:
        count = 0
        while not ended:
            count += store.add(samples.record())
        return count

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write) for _ in range(2)]
        removed = store.prune(DAYS_90).records
        ended = True
        written = sum(w.result() for w in writers)
    assert removed == 1500 + 398 and written > 0
    summary = store.workload_summary(HASH)
    assert (summary.n_records, summary.n_failed) == (written + 1, 0)
    assert len(left(store)) == written + 1


def test_a_killed_prune_leaves_counts_right(url: str) -> None:
    with open_store(url) as store:
        store.add_all(old(None) for _ in range(3000))
        keep = old(1e-3)
        store.add(keep)
        words = ("db", "prune", "--older-than", "90d", "--db", url)
        with subprocess.Popen([sys.executable, "-m", "tunesmith.cli.main", *words]) as process:
            until = time.monotonic() + 60
            while store.workload_summary(HASH).n_records == 3001 and time.monotonic() < until:
                time.sleep(0.002)
            process.kill()
        summary = store.workload_summary(HASH)
        assert 1 < summary.n_records < 3001, "killed midway"
        assert summary.n_records == len(left(store)) == summary.n_failed + 1
        store.prune(DAYS_90)
        assert left(store) == {keep.id}
        assert store.workload_summary(HASH).n_records == 1


def test_ranges_of_an_index_are_read(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        store.add_all([old(1e-3), old(2e-3), old(None)])
        steps = plan(store, lambda s: s.prune(DAYS_90, dry_run=True))
        assert {"ix_record_status", "ix_record_best", "ix_event_at", "ix_request_created"} <= indices(steps)
        assert walks([step for step in steps if "record" in step.split()[:2]]), steps
