"""Jobs: claimed once, leased, given back, and never overwritten by a worker that was given up."""

import datetime as dt
from collections.abc import Iterator

import db_samples as samples
import pytest

from tunesmith.db import (
    IdempotencyMismatch,
    IllegalTransition,
    Job,
    JobSpec,
    JobState,
    LeaseLost,
    NotFound,
    Store,
    open_store,
)
from tunesmith.db.job_rows import MAX_ATTEMPTS

SPEC = JobSpec(samples.WORKLOAD, {"operator": "matmul(512,512,512)"}, {"threads": 1}, trials=64, seed=7)


class Clock:
    def __init__(self) -> None:
        self.now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def __call__(self) -> dt.datetime:
        self.now += dt.timedelta(milliseconds=1)
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += dt.timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    with open_store(url, clock=clock) as store:
        yield store


def new(store: Store) -> Job:
    return store.jobs.create(SPEC)[0]


def claimed(store: Store, owner: str = "a") -> Job:
    job = store.jobs.claim_next(owner)
    assert job is not None
    return job


def test_a_new_job(store: Store) -> None:
    job, is_new = store.jobs.create(SPEC)
    assert is_new
    assert (job.state, job.name, job.seed, job.trials_total) == (JobState.QUEUED, "matmul", 7, 64)
    assert (job.source, job.options) == (SPEC.source, SPEC.options)
    assert (job.version, job.attempt, job.started_at, job.finished_at) == (1, 0, None, None)
    assert store.jobs.get(job.id) == job
    assert store.workload(SPEC.workload.hash) == SPEC.workload


def test_unknown_jobs(store: Store) -> None:
    with pytest.raises(NotFound):
        store.jobs.get("nobody")
    with pytest.raises(NotFound):
        store.jobs.cancel("nobody")
    with pytest.raises(NotFound):
        store.jobs.heartbeat("nobody", "a")


def test_oldest_first_and_each_once(store: Store) -> None:
    first, second = new(store), new(store)
    assert [claimed(store, "a").id, claimed(store, "b").id] == [first.id, second.id]
    assert store.jobs.claim_next("c") is None


def test_a_whole_life(store: Store, clock: Clock) -> None:
    job = new(store)
    clock.pass_s(100)
    running = claimed(store)
    assert (running.state, running.lease_owner, running.attempt) == (JobState.RUNNING, "a", 1)
    assert running.started_at is not None and running.started_at - job.created_at > dt.timedelta(seconds=99)
    beat = store.jobs.heartbeat(job.id, "a")
    assert beat.lease_until is not None and running.lease_until is not None
    assert beat.lease_until > running.lease_until
    assert beat.version == running.version, "a heartbeat is no change that anybody waits for"
    seen = store.jobs.progress(job.id, "a", phase="search", trials_seen=3, elapsed_s=1.5, untuned_s=0.2)
    assert (seen.phase, seen.trials_seen, seen.elapsed_s, seen.untuned_s) == ("search", 3, 1.5, 0.2)
    done = store.jobs.finish(job.id, "a", JobState.SUCCEEDED, result={"trials": 64})
    assert (done.state, done.result, done.lease_owner) == (JobState.SUCCEEDED, {"trials": 64}, None)
    assert done.finished_at is not None and done.done
    assert done.version > seen.version > running.version > job.version


def test_results_may_hold_what_json_lacks(store: Store) -> None:
    job = new(store)
    claimed(store)
    best = samples.record(1e-3)
    result = {"times": (1.0, float("inf")), "peak": float("nan")}
    done = store.jobs.finish(job.id, "a", JobState.FAILED, result=result, best=best, error="\0")
    assert done.result == {"times": [1.0, None], "peak": None}
    assert (done.best_record_id, done.best_s) == (best.id, best.time_s)
    assert (done.best_gflops, done.error) == (best.gflops, "\N{REPLACEMENT CHARACTER}")
    (listed,) = store.jobs.list().items
    assert (listed.id, listed.source, listed.result) == (job.id, {}, None)


def test_only_the_owner_writes(store: Store) -> None:
    job = new(store)
    for act in (
        lambda: store.jobs.heartbeat(job.id, "b"),
        lambda: store.jobs.progress(job.id, "b", phase="x", trials_seen=0, elapsed_s=0),
        lambda: store.jobs.finish(job.id, "b", JobState.FAILED),
        lambda: store.jobs.release(job.id, "b"),
    ):
        with pytest.raises(LeaseLost):
            act()
        if store.jobs.get(job.id).state is JobState.QUEUED:
            claimed(store, "a")
            with pytest.raises(LeaseLost):
                act()
    assert store.jobs.get(job.id).lease_owner == "a"


def test_finishing_needs_a_terminal_state(store: Store) -> None:
    job = new(store)
    claimed(store)
    with pytest.raises(IllegalTransition):
        store.jobs.finish(job.id, "a", JobState.RUNNING)
    store.jobs.finish(job.id, "a", JobState.FAILED, error="no candidate works")
    assert store.jobs.get(job.id).error == "no candidate works"
    with pytest.raises(LeaseLost):
        store.jobs.finish(job.id, "a", JobState.SUCCEEDED)


def test_released_jobs_go_on(store: Store) -> None:
    job = new(store)
    started = claimed(store).started_at
    back = store.jobs.release(job.id, "a")
    assert (back.state, back.attempt, back.lease_owner) == (JobState.QUEUED, 0, None)
    again = claimed(store, "b")
    assert (again.id, again.attempt, again.started_at) == (job.id, 1, started)


def test_cancel_a_queued_job(store: Store) -> None:
    job = new(store)
    cancelled = store.jobs.cancel(job.id)
    assert cancelled.state is JobState.CANCELLED and cancelled.finished_at is not None
    assert store.jobs.cancel(job.id) == cancelled
    assert store.jobs.claim_next("a") is None


def test_cancel_a_running_job(store: Store) -> None:
    job = new(store)
    claimed(store)
    asked = store.jobs.cancel(job.id)
    assert (asked.state, asked.cancel_requested) == (JobState.RUNNING, True)
    assert store.jobs.cancel(job.id) == asked
    assert store.jobs.heartbeat(job.id, "a").cancel_requested
    assert store.jobs.finish(job.id, "a", JobState.CANCELLED).state is JobState.CANCELLED


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED])
def test_what_is_over_cannot_be_cancelled(store: Store, state: JobState) -> None:
    job = new(store)
    claimed(store)
    store.jobs.finish(job.id, "a", state)
    with pytest.raises(IllegalTransition):
        store.jobs.cancel(job.id)


def test_a_silent_worker_loses_its_job(store: Store, clock: Clock) -> None:
    job = new(store)
    claimed(store)
    assert store.jobs.requeue_abandoned() == ()
    clock.pass_s(61)
    (back,) = store.jobs.requeue_abandoned()
    assert (back.id, back.state, back.attempt) == (job.id, JobState.QUEUED, 1)
    with pytest.raises(LeaseLost):
        store.jobs.heartbeat(job.id, "a")
    claimed(store, "b")
    with pytest.raises(LeaseLost):
        store.jobs.finish(job.id, "a", JobState.FAILED)


def test_a_dead_worker_loses_its_job_at_once(store: Store) -> None:
    new(store), new(store)
    claimed(store, "dead"), claimed(store, "alive")
    (back,) = store.jobs.requeue_abandoned(lambda owner: owner == "dead")
    assert back.state is JobState.QUEUED


def test_a_cancelled_job_of_a_dead_worker_is_cancelled(store: Store) -> None:
    job = new(store)
    claimed(store)
    store.jobs.cancel(job.id)
    assert store.jobs.requeue_abandoned(lambda _: True)[0].state is JobState.CANCELLED
    job = new(store)
    claimed(store)
    store.jobs.cancel(job.id)
    assert store.jobs.release(job.id, "a").state is JobState.CANCELLED


def test_a_job_that_kills_its_workers_fails(store: Store) -> None:
    new(store)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert claimed(store).attempt == attempt
        (back,) = store.jobs.requeue_abandoned(lambda _: True)
    assert back.state is JobState.FAILED
    assert "5 attempts" in back.error


def test_idempotency_keys(store: Store, clock: Clock) -> None:
    first, is_new = store.jobs.create(SPEC, idempotency_key="k", request_sha256="r")
    assert is_new
    assert store.jobs.create(SPEC, idempotency_key="k", request_sha256="r") == (first, False)
    with pytest.raises(IdempotencyMismatch):
        store.jobs.create(SPEC, idempotency_key="k", request_sha256="other")
    assert store.jobs.create(SPEC, idempotency_key="k2", request_sha256="r")[1]
    clock.pass_s(25 * 3600)
    later, is_new = store.jobs.create(SPEC, idempotency_key="k", request_sha256="other")
    assert is_new and later.id != first.id


def test_listing(store: Store) -> None:
    first, second, third = new(store), new(store), new(store)
    claimed(store)
    page = store.jobs.list(limit=2)
    assert [job.id for job in page.items] == [third.id, second.id]
    assert [job.id for job in store.jobs.list(limit=2, cursor=page.next_cursor).items] == [first.id]
    assert [job.id for job in store.jobs.list(state=JobState.RUNNING).items] == [first.id]
    assert store.jobs.list(state=JobState.FAILED).items == ()
