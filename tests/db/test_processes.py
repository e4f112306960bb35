"""Many processes and threads on one database, and processes that are killed."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import db_samples as samples

from tunesmith.db import JobSpec, Store, open_store

HASH, FINGERPRINT = samples.WORKLOAD.hash, samples.TARGET.fingerprint


def writer(url: str, count: int) -> subprocess.Popen[str]:
    script = str(Path(__file__).with_name("writer.py"))
    return subprocess.Popen([sys.executable, script, url, str(count)], stdout=subprocess.PIPE, text=True)


def test_killed_writers_lose_nothing_committed(url: str, tmp_path: Path) -> None:
    with writer(url, 100_000) as process:
        assert process.stdout
        told = [process.stdout.readline().strip() for _ in range(50)]
        process.kill()
        told += process.stdout.read().split("\n")[:-1]
    with open_store(url, create=False) as store:
        stored = [record.id for record in store.history(HASH, FINGERPRINT)]
        assert stored[: len(told)] == told
        assert len(stored) <= len(told) + 1, "one may have been committed but not told"
        assert store.workloads().items[0].n_records == len(stored)
    if url.startswith("sqlite"):
        raw = sqlite3.connect(tmp_path / "test.db")
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        raw.close()


def test_eight_processes_create_and_write(url: str) -> None:
    """The first one there sets the database up; none sees a lock or loses a record."""
    processes = [writer(url, 25) for _ in range(8)]
    told = [line for process in processes for line in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0] * 8
    with open_store(url, create=False) as store:
        assert sorted(told) == sorted(r.id for r in store.history(HASH, FINGERPRINT))
        assert store.workloads().items[0].n_records == 200


def test_threads_share_a_store(store: Store) -> None:
    jobs = [store.jobs.create(JobSpec(samples.WORKLOAD, {}, {}, trials=1))[0].id for _ in range(20)]

    def work(owner: str) -> list[str]:
        taken = []
        while job := store.jobs.claim_next(owner):
            store.add(samples.record(job_id=job.id))
            taken.append(job.id)
        return taken

    with ThreadPoolExecutor(8) as pool:
        taken = [job for jobs in pool.map(work, map(str, range(8))) for job in jobs]
    assert sorted(taken) == sorted(jobs)
    assert all(store.jobs.get(job).n_trials == 1 for job in jobs)


def test_one_key_many_requests(store: Store) -> None:
    def create(_: int) -> str:
        spec = JobSpec(samples.WORKLOAD, {}, {}, trials=1)
        return store.jobs.create(spec, idempotency_key="k", request_sha256="r")[0].id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(16)))) == 1
