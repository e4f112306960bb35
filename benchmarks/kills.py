"""What is lost when a server, a worker, a candidate or a connection is killed at a random moment.

    python benchmarks/kills.py [--moments 100] [--seed 0] [--postgres URL] [--json FILE]

A server and a worker tune small programs from one queue; at each moment one of them, a process in which a
candidate is compiled or timed, or all their connections to PostgreSQL are killed without warning, and what
was killed is started again. On SQLite there is no connection to cut. Each database has as many moments; a
schema of its own in that of URL is made, and dropped in the end.

lost: trials that the API had shown and that are gone, or that are missing from the budget. twice: trials of
a job with the number or the schedule of another one. wrong: jobs that did not succeed, or not with as many
trials as were asked for. These count for what was killed last while the job ran. orphans: processes left
behind some seconds after their parent. goes on: seconds until all jobs that were hit have another trial or
end.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]
from serving import Process, Server, databases, descendants, marked

from tunesmith.db import Job, JobState, Store, open_store

VICTIMS = ("server", "worker", "candidate", "connection")
QUEUED = 4  # jobs at least, at each moment
LATEST_S = 4.0  # of a moment, after the last one is got over: about what a job takes
GRACE_S = 5.0  # for processes to go with their parent
PATIENCE_S = 120.0
SOURCES = (
    {"operator": "matmul(32,32,32)"},
    {"operator": "softmax(16,64)"},
    {"program": "def row_sums(a: f32[256, 96], b: f32[256, 96]):\n    return (a * b + a).sum(axis=1)\n"},
    {"program": "def dense(x: f32[16, 32], w: f32[32, 32]):\n    return relu(x @ w)\n"},
    {"tasks": [{"operator": "matmul(16,48,32)", "weight": 2.0}, {"operator": "softmax(8,32)"}]},
)
TRIALS = (8, 15)  # fewer than any reason to stop early needs


@dataclass(frozen=True)
class Row:
    database: str
    victim: str
    moments: int
    lost: int
    twice: int
    wrong: int
    orphans: int
    median_s: float
    longest_s: float


@dataclass
class Asked:
    """A job as its user knows it: what the API has shown of it, and what was killed last while it ran."""

    trials: int
    shown: set[str] = field(default_factory=set)
    hit_by: str = ""


@dataclass
class Count:
    moments: int = 0
    lost: int = 0
    twice: int = 0
    wrong: int = 0
    orphans: int = 0
    seconds: list[float] = field(default_factory=list)


class Service:
    """A server and a worker that are started again when they are killed."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.server = Server(url, folder)
        self.worker = Process(url, folder, "worker")
        self.http = httpx.Client(base_url=self.server.address, timeout=30)

    def kill(self, victim: str, rng: random.Random) -> set[int]:
        """Returns the processes whose jobs are hit; none if there was nothing to kill."""
        if victim == "server":
            pid = self.server.pid
            self.server.kill()
            self.server = Server(self.url, self.folder)
            self.http = httpx.Client(base_url=self.server.address, timeout=30)
            return {pid}
        if victim == "worker":
            pid = self.worker.pid
            self.worker.kill()
            self.worker = Process(self.url, self.folder, "worker")
            return {pid}
        both = {self.server.pid, self.worker.pid}
        if victim == "connection":
            cut(self.url)
            return both
        candidates = sorted(descendants(self.server, self.worker) - both)
        if not candidates:
            return set()
        return {kill_child(rng.choice(candidates))} & both

    def orphans(self) -> int:
        """How many there are, and ends them."""
        deadline = time.monotonic() + GRACE_S
        while left := marked(self.folder) - descendants(self.server, self.worker):
            if time.monotonic() > deadline:
                for pid in left:
                    print(f"left behind: {described(pid)}", flush=True)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return len(left)
            time.sleep(0.1)
        return 0

    def end(self) -> int:
        """In good order; returns how many did not end well or left something behind."""
        codes = [self.worker.end(), self.server.end()]
        return sum(code != 0 for code in codes) + self.orphans()


def described(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return f"{pid} {process.status()} {' '.join(process.cmdline()[1:6])}"
    return str(pid)


def kill_child(pid: int) -> int:
    """Returns whose child it was."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        parent = int(process.ppid())
        process.kill()
        return parent
    return 0


def cut(url: str) -> None:
    """All connections of the service, as an administrator does."""
    import psycopg

    with psycopg.connect(url, application_name="kills", autocommit=True) as connection:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        name = next(part for part in url.split("&") if part.startswith("application_name="))
        connection.execute(query, (name.partition("=")[2],))


class Work:
    """The jobs of one database."""

    def __init__(self, service: Service, store: Store, rng: random.Random) -> None:
        self.service, self.store, self.rng = service, store, rng
        self.jobs: dict[str, Asked] = {}

    def fill(self) -> None:
        """Queues jobs until there are enough."""
        done = sum(self.store.jobs.get(job).done for job in self.jobs)
        for _ in range(QUEUED + done - len(self.jobs)):
            trials = self.rng.randint(*TRIALS)
            body = {**self.rng.choice(SOURCES), "trials": trials, "seed": len(self.jobs), "fresh": True}
            answer = self.service.http.post("/v1/jobs", json=body)
            assert answer.status_code == 202, answer.text
            self.jobs[answer.json()["id"]] = Asked(trials)

    def running(self, pids: set[int]) -> list[Job]:
        """Jobs that these processes hold."""
        jobs = self.store.jobs.list(state=JobState.RUNNING).items
        return [job for job in jobs if int((job.lease_owner or "//").split("/")[1] or 0) in pids]

    def look(self, seconds: float) -> None:
        """Notes for so long what the API shows."""
        deadline = time.monotonic() + seconds
        while True:
            for job in self.store.jobs.list(state=JobState.RUNNING).items:
                page = self.service.http.get("/v1/records", params={"job": job.id, "limit": 500}).json()
                self.jobs[job.id].shown.update(item["id"] for item in page["items"])
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)

    def goes_on(self, hit: Sequence[Job], began: float) -> float:
        """Seconds until each of them has another trial or has ended; infinite if one never does."""
        marks = {job.id: job.n_trials for job in hit}
        while marks and time.monotonic() - began < PATIENCE_S:
            for job in [self.store.jobs.get(key) for key in marks]:
                if job.n_trials > marks[job.id] or job.done:
                    del marks[job.id]
            time.sleep(0.01)
        return float("inf") if marks else time.monotonic() - began

    def finish(self) -> None:
        """Waits for all jobs; one that never ends is found wrong."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not all(self.store.jobs.get(job).done for job in self.jobs):
            self.look(0.5)

    def check(self, counts: dict[str, Count]) -> None:
        """What each job has in the end, against what was asked and shown."""
        for key, asked in self.jobs.items():
            job, records = self.store.jobs.get(key), self.store.records(job=key, limit=500).items
            missing = asked.shown - {record.id for record in records}
            numbers = {(record.workload.hash, record.trial) for record in records}
            schedules = {(record.workload.hash, record.schedule_hash) for record in records}
            count = counts[asked.hit_by]
            lost = max(len(missing), asked.trials - len(records))
            twice = max(len(records) - min(len(numbers), len(schedules)), len(records) - asked.trials)
            wrong = job.state is not JobState.SUCCEEDED or job.n_trials != asked.trials
            count.lost, count.twice, count.wrong = count.lost + lost, count.twice + twice, count.wrong + wrong
            if lost or twice or wrong:
                print(f"job {key} ({job.name}, {asked.hit_by}): {job.state} {job.error} with {job.n_trials}"
                      f" trials of {asked.trials}, lost {lost}, twice {twice}", flush=True)  # fmt: skip


def moment(work: Work, victim: str, count: Count) -> None:
    service, rng = work.service, work.rng
    work.fill()
    work.look(rng.uniform(0.0, LATEST_S))
    before = {job.id: job for job in work.running({service.server.pid, service.worker.pid})}
    began = time.monotonic()
    pids = service.kill(victim, rng)
    hit = [job for job in before.values() if int((job.lease_owner or "//").split("/")[1]) in pids]
    for job in hit:
        work.jobs[job.id].hit_by = victim
    count.moments += 1
    if hit:
        count.seconds.append(work.goes_on(hit, began))
    count.orphans += service.orphans()


def figures(name: str, url: str, folder: Path, moments: int, seed: int) -> Iterator[Row]:
    rng = random.Random(f"{seed} {name}")
    victims = VICTIMS if name == "postgresql" else VICTIMS[:3]
    order = [victims[i % len(victims)] for i in range(moments)]
    rng.shuffle(order)
    counts = {victim: Count() for victim in (*victims, "")}
    service = Service(url, folder)
    try:
        with open_store(url.replace("application_name=", "application_name=kills_")) as store:
            work = Work(service, store, rng)
            for victim in order:
                moment(work, victim, counts[victim])
            work.finish()
            counts[""].orphans += service.end()
            work.check(counts)
    finally:
        service.server.popen.kill()
        service.worker.popen.kill()
    for victim, count in counts.items():
        seconds = count.seconds or [0.0]
        yield Row(name, victim or "nothing", count.moments, count.lost, count.twice, count.wrong,
                  count.orphans, statistics.median(seconds), max(seconds))  # fmt: skip


def main() -> int:
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as text, databases(Path(text), args.postgres) as places:
        for name, url in places:
            folder = Path(text) / name
            folder.mkdir()
            print(f"{name:<12}{'killed':<12}{'moments':>8}{'lost':>6}{'twice':>6}{'wrong':>6}{'orphans':>8}"
                  f"{'goes on, median':>17}{'max':>8}   asked 0 0 0 0", flush=True)  # fmt: skip
            for row in figures(name, url, folder, args.moments, args.seed):
                rows.append(row)
                print(f"{'':<12}{row.victim:<12}{row.moments:>8}{row.lost:>6}{row.twice:>6}{row.wrong:>6}"
                      f"{row.orphans:>8}{row.median_s:>15.1f} s{row.longest_s:>6.1f} s",
                      flush=True)  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return int(any(r.lost or r.twice or r.wrong or r.orphans or r.longest_s > PATIENCE_S for r in rows))


if __name__ == "__main__":
    sys.exit(main())
