"""Records that nobody measured, made with a seed in great number: for what a database answers in."""

import datetime as dt
import hashlib
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import sqlalchemy as sa

from tunesmith.db import StoreError, models, open_store
from tunesmith.db.codec import record_row, target_row, workload_row
from tunesmith.db.engine import Database
from tunesmith.db.maintenance import condition
from tunesmith.db.urls import normalize
from tunesmith.frontend import operator
from tunesmith.ir import canonical
from tunesmith.records import Measurement, Peaks, Protocol, Record, Status, Target, Workload
from tunesmith.search.default import default_schedule
from tunesmith.tuning.workload import workload_of as measured_workload

__all__ = ["TARGETS", "fill", "made_up_record", "workload_of"]

_PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
_CACHES = (1 << 15, 1 << 19, 1 << 25, 64)
_FIRST = Target("x86_64-linux-gnu", "znver3", "+avx2,+fma", "made up", 64, 1, *_CACHES, 32, 16, _PEAKS)
TARGETS = [replace(_FIRST, l3_bytes=(1 << 25) + n) for n in range(8)]
"""All of one CPU. The last has no records."""

_AT_ONCE = 2000
_BORN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@cache
def _form() -> tuple[Workload, dict[str, Any]]:
    workload, form = measured_workload(operator("matmul(512,512,512)"))
    return workload, default_schedule(canonical(form), _FIRST).to_json()


def workload_of(n: int) -> Workload:
    """One of many, with hashes of their own."""
    digest = hashlib.sha256(str(n).encode()).hexdigest()[:32]
    return replace(_form()[0], hash=digest, name=f"matmul{n}", extents=(512 + n, 512, 512))


def made_up_record(
    rng: random.Random, n: int, number: int | None = None, job_id: str | None = None
) -> Record:
    """A trial of workload ``n``; a tenth of them failed. ``number`` gives its time and id."""
    failed = rng.random() < 0.1
    times = tuple(rng.lognormvariate(-6, 1) for _ in range(10))
    faults = (Status.RUN_ERROR, Status.WRONG_ANSWER, Status.BUILD_TIMEOUT)
    status = rng.choice(faults) if failed else Status.OK
    born = dt.datetime.now(dt.UTC) if number is None else _BORN + dt.timedelta(milliseconds=number * 20)
    stamp = int(born.timestamp() * 1000)
    value = (stamp << 80) | (7 << 76) | (rng.getrandbits(12) << 64) | (2 << 62) | rng.getrandbits(62)
    text = f"{value:032x}"
    return Record(
        id="-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])),
        workload=workload_of(n),
        target=TARGETS[min(int(rng.expovariate(1)), len(TARGETS) - 2)],
        schedule=_form()[1],
        schedule_hash=f"{rng.getrandbits(128):032x}",
        measurement=Measurement(status, () if failed else times, "crashed" if failed else "", 0, 0.05, 0.02),
        protocol=Protocol(),
        trial=rng.randrange(1000),
        seed=0,
        created_at=born,
        versions={"tunesmith": "0", "llvm": "22"},
        job_id=job_id,
    )


def fill(url: str, size: int) -> int:
    """Makes the database unless it is there; returns how many workloads it has. The last tenth of them has
    two thirds of the records, as the hot shapes of a team have."""
    workloads = max(10, math.isqrt(size) * 2)
    if not _is_there(url, size, workloads):
        with open_store(url):
            pass
        database = Database(normalize(url))
        _insert_all(database, size, workloads)
        database.close()
    return workloads


def _is_there(url: str, size: int, workloads: int) -> bool:
    """The number of workloads tells a database of one size from that of another: records have been added."""
    try:
        counts = condition(url).counts
    except StoreError:
        return False
    return counts.get("workload") == workloads and counts["record"] >= size


def _insert_all(database: Database, size: int, workloads: int) -> None:
    counts, failures = Counter[str](), Counter[str]()
    engine = database.engine.execution_options(tunesmith_write=True)
    with engine.begin() as connection:
        for table in reversed(models.metadata.sorted_tables):
            connection.execute(sa.delete(table))
        targets = [{**target_row(t), "created_at": _BORN} for t in TARGETS]
        connection.execute(sa.insert(models.target), targets)
        shared = [{**workload_row(workload_of(n)), "created_at": _BORN} for n in range(workloads)]
        connection.execute(sa.insert(models.workload), shared)
    every = _rows(size, workloads)
    while rows := list(islice(every, _AT_ONCE)):
        with engine.begin() as connection:
            connection.execute(sa.insert(models.record), rows)
        counts.update(r["workload_id"] for r in rows)
        failures.update(r["workload_id"] for r in rows if r["rank_s"] is None)
    with engine.begin() as connection:
        table = models.workload
        for key, n in counts.items():
            values = {"n_records": n, "n_failed": failures[key]}
            connection.execute(sa.update(table).where(table.c.id == key).values(**values))
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("ANALYZE"))


def _rows(size: int, workloads: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(0)
    hot = workloads - max(1, workloads // 10)
    for number in range(size):
        if number < workloads * (len(TARGETS) - 1):  # something for every pair
            n, target = number % workloads, TARGETS[number // workloads]
        else:
            n, target = rng.randrange(hot if rng.random() < 0.66 else 0, workloads), None
        record = made_up_record(rng, n, number)
        record = replace(record, target=target or record.target)
        yield record_row(record, record.workload, record.target) | {"seq": None}
