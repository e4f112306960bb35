"""Records of real programs and schedules, as imports take them, with all that a record can be."""

import functools
from dataclasses import replace

import db_samples as samples

from tunesmith.frontend import operator
from tunesmith.records import Measurement, Peaks, Protocol, Record, Status, Workload
from tunesmith.schedule import Schedule, Split, Tail
from tunesmith.tuning.workload import workload_of

TIMES_S = (0.02, 0.021, 0.022)


def schedules(count: int) -> list[Schedule]:
    """Legal ones for a matrix product."""
    return [Schedule((Split("t0", "i0", (n + 1,), Tail.PEEL),)) for n in range(count)]


@functools.cache
def product(n: int = 64) -> Workload:
    return workload_of(operator(f"matmul({n},{n},{n})"))[0]


def record(n: int = 0, *, of: Workload | None = None, **changes: object) -> Record:
    schedule = schedules(n + 1)[n]
    made = samples.record(
        workload=of or product(),
        schedule=schedule.to_json(),
        schedule_hash=schedule.hash,
        measurement=Measurement(Status.OK, tuple(t * (1 + n / 100) for t in TIMES_S), build_s=0.1),
        trial=n,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def variety() -> list[Record]:
    """Failures with numbers that JSON lacks, cold caches, another's axis names, peaks of another day."""
    base = product()
    renamed = replace(base, program={**base.program, "name": "mine"}, name="mine")
    slower = replace(samples.TARGET, peaks=Peaks(149.0, 74.0, 400.0, 200.0, 30.0, 12.0))
    wrong = Measurement(Status.WRONG_ANSWER, TIMES_S, error="wrong\0 \u2028 answer", max_error=float("inf"),
                        tolerance=1e-5)  # fmt: skip
    return [
        *(record(n) for n in range(4)),
        record(4, measurement=wrong),
        record(5, measurement=replace(wrong, max_error=float("nan"), signal=11)),
        record(6, measurement=Measurement(Status.BUILD_TIMEOUT, error="x" * 5000)),
        record(7, protocol=Protocol(cache="cold", samples=3)),
        record(8, of=renamed),
        record(9, target=slower, versions={}),
        record(10, of=product(96), seed=2**63 - 1, trial=7),
        record(11, target=samples.target(cpu="icelake-server", threads=2)),
    ]
