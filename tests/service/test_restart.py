"""Jobs outlive the process that runs them."""

import subprocess
import sys
from typing import Any

from tunesmith.db import JobState
from tunesmith.service.owner import is_dead, new_owner


def test_a_stopped_service_goes_on_where_it_was(start: Any) -> None:
    with start() as service:
        service.tuner.trial_s = 0.01
        job = service.submit(trials=60, seconds=100)
        service.wait(job, lambda view: view["progress"]["measured"] >= 5)
    with start(run_jobs=False) as service:
        stopped = service.http.get(f"/v1/jobs/{job}").json()
        assert (stopped["state"], stopped["attempt"]) == ("queued", 1)
        measured = stopped["progress"]["measured"]
        assert 5 <= measured < 60 and stopped["progress"]["elapsed_s"] > 0
    with start() as service:
        done = service.ended(job)
        assert (done["state"], done["progress"]["measured"], done["attempt"]) == ("succeeded", 60, 2)
        assert done["progress"]["elapsed_s"] > stopped["progress"]["elapsed_s"]
        assert service.tuner.calls[-1].seconds < 100 - 0.04, "time that was spent stays spent"
        trials = [r.trial for r in service.store.records(job=job, limit=100).items]
        assert sorted(trials) == list(range(60)), "nothing is measured twice, nothing is lost"


def dead_owner() -> str:
    code = "from tunesmith.service.owner import new_owner; print(new_owner())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_the_job_of_a_dead_process_is_taken_over(start: Any) -> None:
    with start(run_jobs=False) as service:
        job, cancelled = service.submit(trials=4), service.submit(operator="matmul(8,8,8)")
        owner = dead_owner()
        for _ in range(2):
            service.store.jobs.claim_next(owner)
        service.http.post(f"/v1/jobs/{cancelled}:cancel")
        assert service.http.get(f"/v1/jobs/{cancelled}").json()["state"] == "running"
    with start() as service:
        done = service.ended(job)
        assert (done["state"], done["attempt"]) == ("succeeded", 2)
        assert service.ended(cancelled)["state"] == "cancelled"


def test_a_worker_that_lost_its_job_stops(start: Any) -> None:
    """It was taken for dead: whoever has the job now must not be disturbed, nor is it run twice."""
    with start(poll_s=60.0) as service:
        service.tuner.hold.clear()  # it neither measures nor looks at its lease while the job changes hands
        job = service.submit(trials=10_000)
        service.wait(job, lambda view: view["progress"]["phase"] == "start")
        assert service.store.jobs.requeue_abandoned(lambda owner: True)
        other = service.store.jobs.claim_next("other")
        assert other is not None and other.id == job
        service.tuner.hold.set()
        next_job = service.submit(operator="matmul(8,8,8)", trials=1)
        assert service.ended(next_job)["state"] == "succeeded"
        assert service.store.jobs.finish(other.fence, JobState.SUCCEEDED).state is JobState.SUCCEEDED


def test_owners() -> None:
    mine = new_owner()
    host, pid, started, _ = mine.split("/")
    assert new_owner() != mine
    assert not is_dead(mine)
    assert is_dead(dead_owner())
    assert is_dead(f"{host}/{pid}/0.00/x"), "the number was given to another process since"
    assert not is_dead(f"elsewhere/{pid}/{started}/x"), "nobody can tell from here"
    assert not is_dead("") and not is_dead("a/b") and not is_dead(host)
