"""What users may ask of a job in each of its states, and what comes of it."""

import datetime as dt
import threading

import db_samples as samples
import pytest

from tunesmith.db import (
    IllegalTransition,
    Job,
    JobSpec,
    JobState,
    Store,
    TaskSpec,
    TaskState,
    Verb,
    VersionMismatch,
)

SOURCE = {"operator": "matmul(512,512,512)"}
SPEC = JobSpec(samples.WORKLOAD, SOURCE, {}, trials=64)


def brought_to(store: Store, state: JobState) -> Job:
    job, _ = store.jobs.create(SPEC)
    if state is JobState.QUEUED:
        return job
    if state in (JobState.PAUSED, JobState.STOPPED, JobState.CANCELLED):
        verbs = {JobState.PAUSED: Verb.PAUSE, JobState.STOPPED: Verb.STOP, JobState.CANCELLED: Verb.CANCEL}
        return store.jobs.ask(job.id, verbs[state])
    claimed = store.jobs.claim_next("w")
    assert claimed is not None
    return claimed if state is JobState.RUNNING else store.jobs.finish(claimed.fence, state)


OUTCOMES = {
    # state: pause, resume, stop, cancel; a dash for what is refused, a star for what is asked of the worker
    "queued": "paused queued stopped cancelled",
    "running": "*paused running *stopped *cancelled",
    "paused": "paused queued stopped cancelled",
    "stopped": "- - stopped -",
    "cancelled": "- - - cancelled",
    "succeeded": "- - - -",
    "failed": "- - - -",
}


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("verb", Verb)
def test_every_verb_in_every_state(store: Store, state: JobState, verb: Verb) -> None:
    job = brought_to(store, state)
    expected = OUTCOMES[state.value].split()[list(Verb).index(verb)]
    if expected == "-":
        with pytest.raises(IllegalTransition):
            store.jobs.ask(job.id, verb)
        assert store.jobs.get(job.id) == job
        return
    asked = store.jobs.ask(job.id, verb)
    if expected.startswith("*"):
        assert (asked.state, asked.wanted) == (JobState.RUNNING, expected[1:])
    else:
        assert (asked.state, asked.wanted) == (expected, None)
    assert (asked.finished_at is not None) == asked.done
    assert store.jobs.ask(job.id, verb) == asked, "asking twice changes nothing"


def test_stronger_requests_replace_weaker_ones(store: Store) -> None:
    job = brought_to(store, JobState.RUNNING)
    for verb in (Verb.PAUSE, Verb.STOP, Verb.CANCEL):
        assert store.jobs.ask(job.id, verb).wanted is verb.aim
    for verb in (Verb.STOP, Verb.PAUSE, Verb.RESUME):
        with pytest.raises(IllegalTransition):
            store.jobs.ask(job.id, verb)
    assert store.jobs.heartbeat(job.fence).wanted is JobState.CANCELLED


def test_a_request_to_pause_can_be_withdrawn(store: Store) -> None:
    job = brought_to(store, JobState.RUNNING)
    store.jobs.ask(job.id, Verb.PAUSE)
    assert store.jobs.ask(job.id, Verb.RESUME).wanted is None


def test_paused_jobs_are_not_claimed(store: Store) -> None:
    job = brought_to(store, JobState.RUNNING)
    assert store.jobs.finish(job.fence, JobState.PAUSED).finished_at is None
    assert store.jobs.claim_next("w") is None
    store.jobs.ask(job.id, Verb.RESUME)
    assert store.jobs.claim_next("w") is not None


def test_changes_are_meant_for_a_version(store: Store) -> None:
    job = brought_to(store, JobState.QUEUED)
    with pytest.raises(VersionMismatch, match="at version 1, not 7"):
        store.jobs.ask(job.id, Verb.PAUSE, version=7)
    paused = store.jobs.ask(job.id, Verb.PAUSE, version=1)
    with pytest.raises(VersionMismatch):
        store.jobs.ask(job.id, Verb.RESUME, version=1)
    assert store.jobs.ask(job.id, Verb.RESUME, version=paused.version).state is JobState.QUEUED


def spec(n: int, priority: int = 0, measures: str | None = None, tasks: tuple[int, ...] = ()) -> JobSpec:
    parts = tuple(TaskSpec(samples.workload(i), weight=i + 1.0) for i in tasks)
    kind = "tune_many" if tasks else "tune"
    return JobSpec(
        samples.workload(n), SOURCE, {}, 8, kind=kind, tasks=parts, priority=priority, measures=measures
    )


def test_urgent_jobs_come_first_then_the_oldest(store: Store) -> None:
    priorities = [0, 5, -3, 5, 0, 7]
    jobs = [store.jobs.create(spec(i, priority))[0].id for i, priority in enumerate(priorities)]
    claimed = []
    while (job := store.jobs.claim_next("w")) is not None:
        claimed.append(jobs.index(job.id))
    assert claimed == [5, 1, 3, 0, 4, 2]


def test_jobs_that_share_measurements_do_not_run_at_once(store: Store) -> None:
    first = store.jobs.create(spec(1, measures="warm"))[0]
    second = store.jobs.create(spec(1, measures="warm", priority=9))[0]
    with_it = store.jobs.create(spec(2, measures="warm", tasks=(2, 1)))[0]
    cold = store.jobs.create(spec(1, measures="cold"))[0]
    fresh = store.jobs.create(spec(1))[0]
    running = store.jobs.claim_next("a")
    assert running is not None and running.id == second.id
    others = [store.jobs.claim_next("b"), store.jobs.claim_next("c"), store.jobs.claim_next("d")]
    assert [job and job.id for job in others] == [cold.id, fresh.id, None]
    store.jobs.finish(running.fence, JobState.SUCCEEDED)
    following = store.jobs.claim_next("a")
    assert following is not None and following.id == first.id
    assert store.jobs.claim_next("b") is None, "one of its tasks is being measured"
    store.jobs.finish(following.fence, JobState.FAILED)
    last = store.jobs.claim_next("b")
    assert last is not None and last.id == with_it.id


def test_many_claim_at_once(store: Store) -> None:
    """Each job once, and of those that share never two."""
    for n in range(12):
        store.jobs.create(spec(n % 4, measures="warm"))
    claimed: list[Job] = []

    def work(worker: str) -> None:
        for _ in range(3):
            if (job := store.jobs.claim_next(worker)) is not None:
                claimed.append(job)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job.workload_hash for job in claimed) == [samples.workload(n).hash for n in range(4)]


def test_tasks_and_their_counts(store: Store) -> None:
    job, _ = store.jobs.create(spec(2, tasks=(2, 0, 1)))
    assert job.name == "matmul2, matmul0, matmul1"
    running = store.jobs.claim_next("w")
    assert running is not None
    store.jobs.set_task(running.fence, 1, TaskState.RUNNING)
    store.jobs.set_task(running.fence, 0, TaskState.RUNNING)
    fast = samples.record(1e-3, workload=samples.workload(2), job_id=job.id)
    for record in (samples.record(2e-3, workload=samples.workload(2), job_id=job.id), fast):
        store.add(record, fence=running.fence)
    store.add(samples.record(None, workload=samples.workload(0), job_id=job.id), fence=running.fence)
    first, second, _ = store.jobs.tasks(job.id)
    assert (first.state, first.n_trials, first.best_record_id, first.weight) == ("running", 2, fast.id, 3.0)
    assert (second.state, second.n_trials, second.n_failed, second.best_s) == ("waiting", 1, 1, None)
    store.set_race({fast.id: 1.1e-3}, job_id=job.id, fence=running.fence)
    assert store.jobs.tasks(job.id)[0].best_s == 1.1e-3
    whole = store.jobs.get(job.id)
    assert (whole.n_trials, whole.n_failed, whole.best_record_id) == (3, 1, None), "times do not compare"
    known = samples.record(3e-3, workload=samples.workload(1))
    store.add(known)
    store.jobs.finish(running.fence, JobState.SUCCEEDED, bests=[known])
    assert [task.state for task in store.jobs.tasks(job.id)] == ["done", "failed", "done"]
    assert store.jobs.tasks(job.id)[2].best_record_id == known.id


def test_tasks_of_a_job_that_waits_again(store: Store) -> None:
    job = brought_to(store, JobState.RUNNING)
    assert [task.state for task in store.jobs.tasks(job.id)] == ["running"]
    store.jobs.release(job.fence)
    assert [task.state for task in store.jobs.tasks(job.id)] == ["waiting"]
    store.jobs.ask(job.id, Verb.CANCEL)
    assert [task.state for task in store.jobs.tasks(job.id)] == ["waiting"], "nobody knows whether it works"


def test_events_tell_a_life(store: Store) -> None:
    job = brought_to(store, JobState.RUNNING)
    store.add(samples.record(2e-3, job_id=job.id), fence=job.fence)
    store.add(samples.record(3e-3, job_id=job.id), fence=job.fence)
    store.jobs.progress(job.fence, phase="search", trials_seen=2, elapsed_s=1.0, announce=False)
    store.jobs.progress(job.fence, phase="race", trials_seen=2, elapsed_s=1.5)
    store.jobs.ask(job.id, Verb.STOP)
    store.jobs.finish(job.fence, JobState.STOPPED)
    events = store.events.after(0, job_id=job.id)
    told = [(e.kind, e.document.get("state") or e.document.get("phase")) for e in events]
    assert told == [
        ("state", "queued"),
        ("state", "running"),
        ("best", None),
        ("progress", "race"),
        ("state", "running"),
        ("state", "stopped"),
    ]
    assert events[4].document["requested"] == "stopped"
    assert events[2].document["time_s"] == 2e-3
    ids = [event.id for event in events]
    assert ids == sorted(set(ids)) and store.events.last_id() == ids[-1]
    assert [e.id for e in store.events.after(ids[1], until=ids[3])] == ids[2:4]
    assert store.events.after(ids[2], job_id=job.id, limit=1)[0].id == ids[3]


def test_old_events_go_and_their_ids_do_not_come_back(store: Store) -> None:
    brought_to(store, JobState.QUEUED)
    last = store.events.last_id()
    assert store.events.prune(dt.timedelta(days=1)) == 0
    assert store.events.prune(dt.timedelta(0)) == 1
    assert store.events.after(0) == []
    brought_to(store, JobState.QUEUED)
    assert store.events.after(0)[0].id > last


def test_nothing_is_told_of_what_did_not_happen(store: Store) -> None:
    job = brought_to(store, JobState.RUNNING)
    last = store.events.last_id()
    store.jobs.requeue_abandoned(lambda _: True)
    after = store.events.last_id()
    assert after > last
    with pytest.raises(Exception, match="no longer holds"):
        store.add(samples.record(1e-6, job_id=job.id), fence=job.fence)
    assert store.events.last_id() == after


def test_events_of_many_writers_are_read_once_and_all(store: Store) -> None:
    """A reader that goes on after the last id that it saw misses none."""
    jobs = [brought_to(store, JobState.QUEUED) for _ in range(4)]
    seen: list[int] = []
    over = threading.Event()

    def read() -> None:
        while True:
            ended = over.is_set()
            new = [event.id for event in store.events.after(seen[-1] if seen else 0)]
            seen.extend(new)
            if ended and not new:
                return

    def write(job: Job) -> None:
        for _ in range(10):
            store.jobs.ask(job.id, Verb.PAUSE)
            store.jobs.ask(job.id, Verb.RESUME)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(job,)) for job in jobs]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    reader.join()
    assert seen == [event.id for event in store.events.after(0)]
    assert len(seen) == 4 + 4 * 20
