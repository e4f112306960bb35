"""What the database and the service answer in, with a million records and with ten thousand.

    python benchmarks/store.py [--sizes 10000,1000000] [--folder DIR] [--postgres URL] [--seconds 60]
                               [--writers 8] [--json FILE]

Databases are made once, with a seed, in DIR (SQLite) and in the PostgreSQL database of URL, whose tables
are emptied. Rows: opening; the best of a workload on a target, in the store and over HTTP at 200 a second
(a server of its own; requests are sent when they are due, whether or not others are answered); pages of
100 records for every filter, from the beginning to the end; and trials recorded one by one by several
writers, each counted in a job of its own. Medians, 99th percentiles, and what is asked of these.
"""

import argparse
import http.client
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from made_up import TARGETS, fill, made_up_record, workload_of

from tunesmith.db import JobSpec, Store, open_store
from tunesmith.db.errors import DatabaseLocked
from tunesmith.records import Status

RATE_S = 1 / 200
CLIENTS = 32
PAGE = 100
LOOKUPS = 3000


@dataclass(frozen=True)
class Row:
    database: str
    records: int
    figure: str
    median: float
    tail: float
    unit: str
    wanted: float


def timed_ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e3


def row(where: tuple[str, int], figure: str, times: Sequence[float], unit: str, wanted: float) -> Row:
    ordered = sorted(times)
    return Row(*where, figure, statistics.median(ordered), ordered[int(len(ordered) * 0.99)], unit, wanted)


def opening(url: str) -> Iterator[float]:
    for _ in range(20):
        began = time.perf_counter()
        with open_store(url) as store:
            store.targets()
        yield (time.perf_counter() - began) * 1e3


def lookups(store: Store, workloads: int, exact: bool) -> Iterator[float]:
    rng = random.Random(1)
    for _ in range(LOOKUPS):
        key, target = workload_of(rng.randrange(workloads)).hash, TARGETS[rng.randrange(len(TARGETS) - 1)]
        wanted = target if exact else TARGETS[-1]  # which nobody has measured on
        yield timed_ms(partial(store.best, key, wanted))


def paging(store: Store) -> Iterator[tuple[str, list[float]]]:
    busiest = store.workloads(limit=1).items[0].hash
    target = TARGETS[0].fingerprint
    filters: dict[str, dict[str, object]] = {
        "all": {}, "of a status": {"status": Status.RUN_ERROR}, "of a target": {"target": target},
        "of a workload": {"workload": busiest},
        "of a target and a status": {"target": target, "status": Status.OK},
        "of a workload and a target": {"workload": busiest, "target": target},
    }  # fmt: skip
    for name, given in filters.items():
        times, cursor, leap = [], None, 20 * PAGE
        for _ in range(200):
            for _ in range(3):
                page = partial(store.summaries, limit=PAGE, cursor=cursor, **given)  # type: ignore[arg-type]
                times.append(timed_ms(page))
            cursor = store.summaries(limit=leap, cursor=cursor, **given).next_cursor  # type: ignore[arg-type]
            leap = min(10_000, leap * 2)
            if cursor is None:
                break
        yield name, times


Counts = "multiprocessing.Queue[tuple[int, int]]"


def write(store: Store, seconds: float, index: int, counts: Counts) -> None:
    """Records for one job of its own until the time is over."""
    done = locked = 0
    job, _ = store.jobs.create(JobSpec(workload_of(index), {}, {}, None))
    rng, deadline = random.Random(index), time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            store.add(made_up_record(rng, index, job_id=job.id))
            done += 1
        except DatabaseLocked:
            locked += 1
    counts.put((done, locked))


def write_apart(url: str, seconds: float, index: int, counts: Counts) -> None:
    with open_store(url) as store:
        write(store, seconds, index, counts)


def writing(url: str, seconds: float, writers: int, kind: str) -> tuple[float, int]:
    """Trials a second by all together, and how often one was told that the database is locked. Threads share
    a store, as those of a server do; processes have each their own."""
    fresh = multiprocessing.get_context("spawn")
    counts: multiprocessing.Queue[tuple[int, int]] = fresh.Queue()
    with open_store(url) as store:
        make, act, where = fresh.Process, write_apart, url
        if kind == "threads":
            make, act, where = threading.Thread, write, store
        workers = [make(target=act, args=(where, seconds, i, counts)) for i in range(writers)]
        for worker in workers:
            worker.start()
        found = [counts.get(timeout=seconds * 3 + 60) for _ in workers]
        for worker in workers:
            worker.join()
    return sum(n for n, _ in found) / seconds, sum(n for _, n in found)


@contextmanager
def server(url: str) -> Iterator[str]:
    command = [sys.executable, "-m", "tunesmith.cli.main", "serve", "--port", "0", "--json", "--db", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["url"]
        _get(address, "/readyz")  # answered when it has started
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _get(address: str, path: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.request("GET", path)
    assert connection.getresponse().status == 200, path
    connection.close()


def requests(address: str, workloads: int, seconds: float) -> list[float]:
    """Milliseconds from when each request was due until its answer was there, but for those that came while
    the server and its clients opened their first connections."""
    host, rng = urlsplit(address).netloc, random.Random(2)
    paths = []
    for _ in range(int(seconds / RATE_S)):
        target = TARGETS[rng.randrange(len(TARGETS) - 1)].fingerprint
        paths.append(f"/v1/best?workload={workload_of(rng.randrange(workloads)).hash}&target={target}")
    times: list[float] = []
    due = time.perf_counter() + 0.5

    def client(first: int) -> None:
        connection = http.client.HTTPConnection(host, timeout=30)
        for i in range(first, len(paths), CLIENTS):
            at = due + i * RATE_S
            time.sleep(max(0.0, at - time.perf_counter()))
            connection.request("GET", paths[i])
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, (answer.status, paths[i])
            times.append((time.perf_counter() - at) * 1e3)
        connection.close()

    clients = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    return times[len(times) // 10 :]


def figures(name: str, url: str, size: int, seconds: float, writers: int) -> Iterator[Row]:
    where, workloads = (name, size), fill(url, size)
    yield row(where, "open", list(opening(url)), "ms", 200)
    with open_store(url) as store:
        for exact in (True, False):
            kind = "best, same target" if exact else "best, similar target"
            yield row(where, kind, list(lookups(store, workloads, exact)), "ms", 2)
        for kind, times in paging(store):
            yield row(where, f"page {kind}", times, "ms", 50)
    with server(url) as address:
        yield row(where, "best over HTTP, 200/s", requests(address, workloads, min(20, seconds)), "ms", 15)
    for kind in ("threads", "processes"):
        rate, locked = writing(url, seconds, writers, kind)
        yield Row(*where, f"trials recorded by {writers} {kind}", rate, rate, "/s", 2000)
        yield Row(*where, f"told it is locked, {kind}", locked, locked, "", 0)


def main() -> None:
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--sizes", default="10000,1000000")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in map(int, args.sizes.split(",")):
            places = [("sqlite", f"sqlite:///{folder.absolute()}/{size}.db")]
            places += [("postgresql", args.postgres)] if args.postgres else []
            for name, url in places:
                for found in figures(name, url, size, args.seconds, args.writers):
                    rows.append(found)
                    print(
                        f"{name:<11}{size:>9,}  {found.figure:<36}{found.median:>10.2f}{found.tail:>10.2f}"
                        f" {found.unit:<3} asked {found.wanted:g}", flush=True,
                    )  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps([asdict(found) for found in rows], indent=1))


if __name__ == "__main__":
    main()
