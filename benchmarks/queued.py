"""How long submitting a job takes, and whether workers claim jobs in the right order.

    python benchmarks/queued.py [--jobs 1000] [--seed 0] [--postgres URL] [--json FILE]

Jobs of many programs, with random priorities, are posted one after another to a server that runs none: by one
client, then by four at once, so many each time. Then they are claimed through the store: by one worker, by
four threads that share a store, and by four processes. The most urgent is to be first, of these the oldest:
out of order is every claim for which a job that should have come before it was claimed later. On SQLite, and
with a URL on PostgreSQL, in a schema of its own. Medians, 99th percentiles, and what is asked of these.
"""

import argparse
import http.client
import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serving import Server, databases

from tunesmith.db import Job, Store, open_store

PRIORITIES = range(-4, 5)
ROUNDS = (1, 1, "threads"), (4, 4, "threads"), (4, 4, "processes")  # clients, and workers that claim
LEASE_S = 3600.0  # nobody keeps the claimed jobs
OPERATORS = (
    "matmul({0},{1},{2})", "softmax({0},{1})", "layer_norm({0},{1})", "conv1d(1,{0},{1},{2},3,1,1)",
    "relu_muladd({3})",
)  # fmt: skip
TEXT = "def dense(x: f32[{0}, {1}], w: f32[{1}, {2}], b: f32[{2}]):\n    return relu(x @ w + b)\n"


@dataclass(frozen=True)
class Row:
    database: str
    figure: str
    median: float
    tail: float
    unit: str
    wanted: float | None = None


def row(name: str, figure: str, times_ms: Sequence[float], wanted: float | None = None) -> Row:
    ordered = sorted(times_ms)
    return Row(name, figure, statistics.median(ordered), ordered[int(len(ordered) * 0.99)], "ms", wanted)


def bodies(count: int, rng: random.Random, first: int) -> list[bytes]:
    """Requests for jobs of which no two have one program: such wait for each other."""
    found = []
    for n in range(first, first + count):
        sizes = (8 + n % 64, 8 + n // 64, rng.randrange(8, 64), 1000 + n)
        form = rng.choice((*OPERATORS, TEXT))
        source = {"program" if form is TEXT else "operator": form.format(*sizes)}
        body = {**source, "priority": rng.choice(PRIORITIES), "trials": rng.randrange(1, 100), "seed": n}
        found.append(json.dumps(body).encode())
    return found


def submit(address: str, requests: Sequence[bytes]) -> list[float]:
    """Milliseconds of each, one after another over one connection."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    times: list[float] = []
    for body in requests:
        began = time.perf_counter()
        connection.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        times.append((time.perf_counter() - began) * 1e3)
        assert answer.status == 202, text
    connection.close()
    return times


def submit_at_once(address: str, requests: Sequence[bytes], clients: int) -> list[float]:
    with ThreadPoolExecutor(clients) as pool:
        parts = pool.map(lambda n: submit(address, requests[n::clients]), range(clients))
        return [time_ms for part in parts for time_ms in part]


def claim_all(store: Store, worker: str) -> list[float]:
    """Milliseconds of each claim, until no job is left."""
    times: list[float] = []
    while True:
        began = time.perf_counter()
        claimed = store.jobs.claim_next(worker, lease_s=LEASE_S)
        if claimed is None:
            return times
        times.append((time.perf_counter() - began) * 1e3)


def claim_apart(url: str, worker: str, begin: Any, times: Any) -> None:
    with open_store(url) as store:
        begin.wait(60)
        times.put(claim_all(store, worker))


def claims(url: str, workers: int, kind: str) -> list[float]:
    if kind == "threads":
        with open_store(url) as store, ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(lambda n: claim_all(store, f"thread {n}"), range(workers)))
    else:
        fresh = multiprocessing.get_context("spawn")
        times, begin = fresh.Queue(), fresh.Barrier(workers)
        given = [(url, f"process {n}", begin, times) for n in range(workers)]
        processes = [fresh.Process(target=claim_apart, args=each) for each in given]
        for process in processes:
            process.start()
        parts = [times.get(timeout=300) for _ in processes]
        for process in processes:
            process.join(30)
    return [time_ms for part in parts for time_ms in part]


def claimed_since(store: Store, last: int) -> list[Job]:
    """In the order in which it became true: that of the events' ids."""
    found = []
    while page := store.events.after(last):
        found += [event.job_id for event in page if event.document.get("state") == "running"]
        last = page[-1].id
    return [store.jobs.get(job) for job in found]


def out_of_order(jobs: Sequence[Job]) -> int:
    """Claims for which one that should have come before them came later."""
    places = [(-job.priority, job.created_at, job.id) for job in jobs]
    wrong, least_later = 0, None
    for place in reversed(places):
        wrong += least_later is not None and place > least_later
        least_later = place if least_later is None else min(place, least_later)
    return wrong


def figures(name: str, url: str, folder: Path, count: int, seed: int) -> Iterator[Row]:
    server, rng = Server(url, folder, "--no-jobs"), random.Random(seed)
    try:
        with open_store(url) as store:
            for i, (clients, workers, kind) in enumerate(ROUNDS):
                last = store.events.last_id()
                times = submit_at_once(server.address, bodies(count, rng, i * count), clients)
                yield row(name, f"submitted by {clients}", times, 50)
                times = claims(url, workers, kind)
                jobs = claimed_since(store, last)
                yield row(name, f"claimed by {workers} {kind}", times)
                yield Row(name, "claims out of order", out_of_order(jobs), out_of_order(jobs), "", 0)
                missed = 2 * count - len(jobs) - len({job.id for job in jobs})
                yield Row(name, "claims missing or repeated", missed, missed, "", 0)
    finally:
        server.end()


def main() -> None:
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, databases(Path(folder), args.postgres) as places:
        for name, url in places:
            for found in figures(name, url, Path(folder), args.jobs, args.seed):
                rows.append(found)
                asked = "" if found.wanted is None else f" asked {found.wanted:g}"
                print(f"{name:<11}{found.figure:<32}{found.median:>9.2f}{found.tail:>9.2f}"
                      f" {found.unit:<3}{asked}", flush=True)  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps([asdict(found) for found in rows], indent=1))


if __name__ == "__main__":
    main()
