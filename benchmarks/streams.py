"""How late listeners hear of events, and whether they disturb what is measured meanwhile.

    python benchmarks/streams.py [--listeners 200] [--rounds 8] [--json FILE]

A worker runs one small job after another, every other one with so many streams of server-sent events open on
it. The server and the listeners are kept on the cores that are left over from timing; the worker sees to that
by itself. Delays are from the moment that an event tells until each listener has it: median, 99th percentile,
longest, and what is asked of that. All jobs begin with the same candidates: the times of those that were
measured in each round, with listeners against without; ± is the distance of the quartiles among the rounds.
"""

import argparse
import asyncio
import datetime as dt
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from serving import Process, Server

from tunesmith.measure.hardware import on_cpus, split_cores

JOB = {"operator": "matmul(128,128,128)", "trials": 12, "seed": 1, "fresh": True}
PATIENCE_S = 120.0

Heard = list[tuple[float, float]]
"""When each event was told and when it came, of one listener."""


@dataclass(frozen=True)
class Row:
    figure: str
    value: float
    unit: str
    wanted: float | None = None


async def listen(host: str, port: int, path: str, connected: asyncio.Semaphore) -> Heard:
    """Until the stream ends."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    heard: Heard = []
    while (line := await reader.readline()) not in (b"", b"0\r\n"):
        now = time.time()
        if line.startswith(b"data: "):
            at = dt.datetime.fromisoformat(json.loads(line[6:])["at"])
            heard.append((at.timestamp(), now))
        elif line.startswith(b"retry: "):
            connected.release()
    writer.close()
    return heard


async def listen_all(address: str, path: str, count: int, tell: Any) -> list[Heard]:
    where, connected = urlsplit(address), asyncio.Semaphore(0)
    assert where.hostname is not None and where.port is not None
    streams = [listen(where.hostname, where.port, path, connected) for _ in range(count)]
    together = asyncio.gather(*streams)
    for _ in range(count):
        await connected.acquire()
    tell.put(time.time())
    return await together


def listeners(address: str, path: str, count: int, tell: Any) -> None:
    """A process of its own: says when all are connected, and in the end what they heard."""
    tell.put(asyncio.run(listen_all(address, path, count, tell)))


def round_with(count: int, server: Server, url: str, folder: Path) -> tuple[list[Heard], dict[str, float]]:
    """What ``count`` listeners heard since all were there, and the times of the candidates by schedule."""
    http = httpx.Client(base_url=server.address, timeout=30)
    job = http.post("/v1/jobs", json=JOB).json()["id"]
    fresh = multiprocessing.get_context("spawn")
    tell = fresh.Queue()
    crowd = fresh.Process(target=listeners, args=(server.address, f"/v1/jobs/{job}/events", count, tell))
    since = 0.0
    if count:
        with on_cpus(split_cores(1).build):
            crowd.start()
        since = tell.get(timeout=PATIENCE_S)
    worker = Process(url, folder, "worker")  # only now, so that there is somebody to hear of all
    try:
        deadline = time.monotonic() + PATIENCE_S
        while http.get(f"/v1/jobs/{job}").json()["state"] != "succeeded" and time.monotonic() < deadline:
            time.sleep(0.5)
        records = http.get("/v1/records", params={"job": job, "status": "ok"}).json()["items"]
        heard = tell.get(timeout=PATIENCE_S) if count else []
    finally:
        worker.end()
        if count:
            crowd.join(PATIENCE_S)
    times = {record["schedule_hash"]: record["time_s"] for record in records}
    return [[pair for pair in pairs if pair[0] >= since] for pairs in heard], times


def spread(values: Sequence[float]) -> float:
    """Distance of the quartiles, relative to the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def delays(rounds: Sequence[Sequence[Heard]]) -> list[Row]:
    found = sorted(came - at for heard in rounds for pairs in heard for at, came in pairs)
    counts = [[len(pairs) for pairs in heard] for heard in rounds]
    return [
        Row("events of a job, at most", max(map(max, counts)), ""),
        Row("events that one did not hear", sum(max(c) * len(c) - sum(c) for c in counts), "", 0),
        Row("delay, median", statistics.median(found) * 1e3, "ms"),
        Row("delay, 99th percentile", found[int(len(found) * 0.99)] * 1e3, "ms"),
        Row("delay, longest", found[-1] * 1e3, "ms", 1000),
    ]


def effect(
    quiet: Sequence[Mapping[str, float]], crowded: Sequence[Mapping[str, float]], count: int
) -> list[Row]:
    common = set.intersection(*(set(times) for times in (*quiet, *crowded)))
    ratios, noise, noise_with = [], [], []
    for schedule in common:
        without, with_them = [t[schedule] for t in quiet], [t[schedule] for t in crowded]
        ratios.append(statistics.median(with_them) / statistics.median(without))
        noise.append(spread(without))
        noise_with.append(spread(with_them))
    return [
        Row("kernels measured in every round", len(common), ""),
        Row(f"time with {count} listeners / with none", statistics.median(ratios), "×"),
        Row("of the kernel with the largest effect", max(ratios, key=lambda r: abs(r - 1)), "×"),
        Row("± among the rounds without", statistics.median(noise) * 100, "%"),
        Row("± among the rounds with", statistics.median(noise_with) * 100, "%"),
    ]


def figures(count: int, rounds: int, folder: Path) -> list[Row]:
    url = f"sqlite:///{folder.absolute()}/bench.db"
    with on_cpus(split_cores(1).build):
        server = Server(url, folder, "--no-jobs")
    heard: list[list[Heard]] = []
    quiet: list[dict[str, float]] = []
    crowded: list[dict[str, float]] = []
    try:
        for _ in range(rounds):
            quiet.append(round_with(0, server, url, folder)[1])
            pairs, times = round_with(count, server, url, folder)
            heard.append(pairs)
            crowded.append(times)
    finally:
        server.end()
    return delays(heard) + effect(quiet, crowded, count)


def main() -> None:
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = figures(args.listeners, args.rounds, Path(folder))
    for row in rows:
        asked = "" if row.wanted is None else f"  asked {row.wanted:g}"
        print(f"{row.figure:<42}{row.value:>10.3f} {row.unit}{asked}")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
