"""Records, programs and a target that the tests of the command line share."""

import datetime as dt

from tunesmith.db import open_store
from tunesmith.records import Measurement, Peaks, Protocol, Record, Status, Target, Workload, new_id

TARGET = Target(
    triple="x86_64-unknown-linux-gnu",
    cpu="znver4",
    features="+avx2",
    model="Test CPU",
    cores=2,
    threads=1,
    l1d_bytes=32 << 10,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
    line_bytes=64,
    vector_bytes=64,
    vector_registers=32,
    peaks=Peaks(f32_gflops=100.0, f64_gflops=50.0, l1_gbs=200.0, l2_gbs=100.0, l3_gbs=80.0, dram_gbs=20.0),
)
ADD = "def add(a: f32[64, 32], b: f32[64, 32]):\n    return a + b\n"


def make_workload(**changes: object) -> Workload:
    values = {
        "hash": "0123456789abcdef",
        "structure": "fedcba9876543210",
        "name": "add",
        "program": {"name": "add"},
        "flops": 2_000_000,
        "min_bytes": 24_576,
        "dtype": "f32",
    }
    return Workload(**(values | changes))  # type: ignore[arg-type]


def make_record(
    time_s: float = 1e-4,
    *,
    workload: Workload | None = None,
    status: Status = Status.OK,
    error: str = "",
    trial: int = 0,
) -> Record:
    record_id = new_id()
    return Record(
        id=record_id,
        workload=workload or make_workload(),
        target=TARGET,
        schedule={"version": 1, "steps": []},
        schedule_hash=record_id[-12:],
        measurement=Measurement(status, (time_s,) * 4 if status is Status.OK else (), error=error),
        protocol=Protocol(),
        trial=trial,
        seed=0,
        created_at=dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC),
        versions={"tunesmith": "0.1.0"},
    )


def fill(url: str, *records: Record) -> None:
    with open_store(url) as store:
        store.add_all(records)
