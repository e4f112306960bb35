"""Jobs: claimed once, leased, given back, and never overwritten by a worker that was given up."""

import datetime as dt
from collections.abc import Iterator

import db_samples as samples
import pytest

from tunesmith.db import (
    Fence,
    IdempotencyMismatch,
    IllegalTransition,
    Job,
    JobSpec,
    JobState,
    LeaseLost,
    NotFound,
    Store,
    TaskState,
    Verb,
    open_store,
)
from tunesmith.db.job_rows import MAX_STRIKES

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
        store.jobs.ask("nobody", Verb.CANCEL)
    with pytest.raises(NotFound):
        store.jobs.heartbeat(Fence("nobody", "a", 1))


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
    beat = store.jobs.heartbeat(running.fence)
    assert beat.lease_until is not None and running.lease_until is not None
    assert beat.lease_until > running.lease_until
    assert beat.version == running.version, "a heartbeat is no change that anybody waits for"
    seen = store.jobs.progress(running.fence, phase="search", trials_seen=3, elapsed_s=1.5, untuned_s=0.2)
    assert (seen.phase, seen.trials_seen, seen.elapsed_s, seen.untuned_s) == ("search", 3, 1.5, 0.2)
    done = store.jobs.finish(running.fence, JobState.SUCCEEDED, result={"trials": 64})
    assert (done.state, done.result, done.lease_owner) == (JobState.SUCCEEDED, {"trials": 64}, None)
    assert done.finished_at is not None and done.done
    assert done.version > seen.version > running.version > job.version


def test_results_may_hold_what_json_lacks(store: Store) -> None:
    job = new(store)
    fence = claimed(store).fence
    best = samples.record(1e-3)
    result = {"times": (1.0, float("inf")), "peak": float("nan")}
    done = store.jobs.finish(fence, JobState.FAILED, result=result, best=best, error="\0")
    assert done.result == {"times": [1.0, None], "peak": None}
    assert (done.best_record_id, done.best_s) == (best.id, best.time_s)
    assert (done.best_gflops, done.error) == (best.gflops, "\N{REPLACEMENT CHARACTER}")
    (listed,) = store.jobs.list().items
    assert (listed.id, listed.source, listed.result) == (job.id, {}, None)


def test_only_the_holder_writes(store: Store) -> None:
    job = new(store)
    other = Fence(job.id, "b", 1)
    acts = (
        lambda: store.jobs.heartbeat(other),
        lambda: store.jobs.progress(other, phase="x", trials_seen=0, elapsed_s=0),
        lambda: store.jobs.finish(other, JobState.FAILED),
        lambda: store.jobs.release(other),
        lambda: store.jobs.set_task(other, 0, TaskState.DONE),
        lambda: store.add(samples.record(job_id=job.id), fence=other),
    )
    for act in acts:
        with pytest.raises(LeaseLost):
            act()
    claimed(store, "a")
    for act in acts:
        with pytest.raises(LeaseLost):
            act()
    assert store.jobs.get(job.id).lease_owner == "a"
    assert (store.jobs.get(job.id).n_trials, store.records(job=job.id).items) == (0, ())


def test_a_worker_presumed_dead_adds_nothing(store: Store) -> None:
    """Even under its own name: it is the attempt that counts."""
    job = new(store)
    late, first = claimed(store).fence, samples.record(job_id=job.id)
    assert store.add(first, fence=late)
    store.jobs.requeue_abandoned(lambda _: True)
    again = claimed(store)
    assert (again.attempt, again.fence.owner) == (2, late.owner)
    with pytest.raises(LeaseLost):
        store.add(samples.record(job_id=job.id), fence=late)
    with pytest.raises(LeaseLost):
        store.set_race({first.id: 1e-3}, job_id=job.id, fence=late)
    assert not store.add(first, fence=late), "what is there already is no fault"
    assert store.add(samples.record(job_id=job.id), fence=again.fence)
    assert store.jobs.get(job.id).n_trials == len(store.records(job=job.id).items) == 2
    assert store.workloads().items[0].n_records == 2


def test_finishing_needs_a_terminal_state(store: Store) -> None:
    job = new(store)
    fence = claimed(store).fence
    with pytest.raises(IllegalTransition):
        store.jobs.finish(fence, JobState.RUNNING)
    store.jobs.finish(fence, JobState.FAILED, error="no candidate works")
    assert store.jobs.get(job.id).error == "no candidate works"
    with pytest.raises(LeaseLost):
        store.jobs.finish(fence, JobState.SUCCEEDED)


def test_released_jobs_go_on(store: Store) -> None:
    job = new(store)
    running = claimed(store)
    back = store.jobs.release(running.fence)
    assert (back.state, back.strikes, back.lease_owner) == (JobState.QUEUED, 0, None)
    again = claimed(store, "b")
    assert (again.id, again.attempt, again.started_at) == (job.id, 2, running.started_at)


def test_a_silent_worker_loses_its_job(store: Store, clock: Clock) -> None:
    job = new(store)
    fence = claimed(store).fence
    assert store.jobs.requeue_abandoned() == ()
    clock.pass_s(61)
    assert store.jobs.requeue_abandoned(is_alive=lambda worker: worker == "a") == ()
    assert store.jobs.heartbeat(fence).state is JobState.RUNNING, "nobody else has it"
    clock.pass_s(61)
    (back,) = store.jobs.requeue_abandoned()
    assert (back.id, back.state, back.strikes) == (job.id, JobState.QUEUED, 1)
    with pytest.raises(LeaseLost):
        store.jobs.heartbeat(fence)
    claimed(store, "b")
    with pytest.raises(LeaseLost):
        store.jobs.finish(fence, JobState.FAILED)


def test_a_dead_worker_loses_its_job_at_once(store: Store) -> None:
    new(store), new(store)
    claimed(store, "dead"), claimed(store, "alive")
    (back,) = store.jobs.requeue_abandoned(lambda worker: worker == "dead")
    assert back.state is JobState.QUEUED


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.STOP, Verb.CANCEL])
def test_a_dead_worker_s_job_becomes_what_was_asked(store: Store, verb: Verb) -> None:
    job = new(store)
    claimed(store)
    store.jobs.ask(job.id, verb)
    (back,) = store.jobs.requeue_abandoned(lambda _: True)
    assert (back.state, back.wanted) == (verb.aim, None)
    job = new(store)
    fence = claimed(store).fence
    store.jobs.ask(job.id, verb)
    assert store.jobs.release(fence).state is verb.aim


def test_a_job_that_kills_its_workers_fails(store: Store) -> None:
    new(store)
    for strikes in range(1, MAX_STRIKES + 1):
        assert claimed(store).attempt == strikes
        (back,) = store.jobs.requeue_abandoned(lambda _: True)
    assert back.state is JobState.FAILED
    assert "5 attempts" in back.error


def test_a_job_that_gets_on_may_be_interrupted_as_often_as_it_likes(store: Store) -> None:
    job = new(store)
    for _ in range(2 * MAX_STRIKES):
        store.add(samples.record(job_id=job.id), fence=claimed(store).fence)
        (back,) = store.jobs.requeue_abandoned(lambda _: True)
        assert (back.state, back.strikes) == (JobState.QUEUED, 0)


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
    assert len(store.jobs.list(workload=SPEC.workload.hash).items) == 3
    assert store.jobs.list(workload="other").items == () == store.jobs.list(priority=1).items


def test_owners_see_their_own(store: Store) -> None:
    mine, _ = store.jobs.create(SPEC, owner="me", idempotency_key="k", request_sha256="r")
    theirs, is_new = store.jobs.create(SPEC, owner="them", idempotency_key="k", request_sha256="s")
    assert is_new
    assert [job.id for job in store.jobs.list(owner="me").items] == [mine.id]
    assert len(store.jobs.list().items) == 2
    assert store.jobs.get(mine.id, owner="me").owner == "me"
    for act in (
        lambda: store.jobs.get(theirs.id, owner="me"),
        lambda: store.jobs.tasks(theirs.id, owner="me"),
        lambda: store.jobs.ask(theirs.id, Verb.CANCEL, owner="me"),
    ):
        with pytest.raises(NotFound):
            act()
    assert {event.job_id for event in store.events.after(0, owner="me")} == {mine.id}
