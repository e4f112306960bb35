"""Made-up workloads, targets and records."""

from dataclasses import replace
from typing import Any

from tunesmith.records import (
    Measurement,
    Peaks,
    Protocol,
    Record,
    Status,
    Target,
    Workload,
    new_id,
    utc_now,
)

TARGET = Target(
    triple="x86_64-unknown-linux-gnu",
    cpu="sapphirerapids",
    features="+avx2,+avx512f,+fma",
    model="Xeon",
    cores=2,
    threads=1,
    l1d_bytes=49152,
    l2_bytes=2097152,
    l3_bytes=110100480,
    line_bytes=64,
    vector_bytes=64,
    vector_registers=32,
    peaks=Peaks(150.0, 75.0, 400.0, 200.0, 30.0, 12.0),
)

WORKLOAD = Workload(
    hash="a1" * 16,
    structure="b2" * 16,
    name="matmul",
    program={"name": "matmul", "stages": [{"name": "c", "axes": ["i", "j"]}]},
    flops=2 * 512**3,
    min_bytes=3 * 4 * 512**2,
    dtype="f32",
)


def workload(n: int) -> Workload:
    return replace(WORKLOAD, hash=f"{n:032x}", name=f"matmul{n}")


def target(**changes: Any) -> Target:
    return replace(TARGET, **changes)


def ok(time_s: float) -> Measurement:
    return Measurement(Status.OK, (time_s * 0.99, time_s, time_s * 1.02), build_s=0.1, run_s=0.05)


def failed(status: Status = Status.RUN_ERROR) -> Measurement:
    return Measurement(status, error="the kernel crashed", signal=11)


def record(time_s: float | None = 1e-3, **changes: Any) -> Record:
    """``time_s`` None makes a failed trial."""
    made = Record(
        id=new_id(),
        workload=WORKLOAD,
        target=TARGET,
        schedule={"version": 1, "steps": [["split", "i", 16], ["vectorize", "j"]]},
        schedule_hash=new_id(),
        measurement=failed() if time_s is None else ok(time_s),
        protocol=Protocol(),
        trial=0,
        seed=0,
        created_at=utc_now(),
        versions={"tunesmith": "0.1.0", "llvm": "20.1"},
    )
    return replace(made, **changes)
