"""A record: program, target, schedule and measurement, with all that is needed to repeat it."""

import datetime as dt
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.records.measurement import Measurement, Protocol
from tunesmith.records.target import Target

__all__ = ["Record", "Workload", "log_distance", "new_id", "utc_now"]


def new_id() -> str:
    """A UUID of version 7 as text: sortable by time, mintable anywhere (RFC 9562 §5.7)."""
    stamp = time.time_ns() // 1_000_000
    value = (stamp << 80) | (7 << 76) | (secrets.randbits(12) << 64) | (2 << 62) | secrets.randbits(62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def log_distance(a: Sequence[int], b: Sequence[int]) -> float:
    """How far apart two shapes of one structure are, given their extents: the root mean square of the
    logarithms, to base 2, of their ratios. So 1 is a factor of two everywhere."""
    return math.sqrt(sum(math.log2(x / y) ** 2 for x, y in zip(a, b, strict=True)) / max(1, len(a)))


@dataclass(frozen=True, slots=True)
class Workload:
    """What is tuned: the program's hash and its whole JSON form.

    ``flops`` counts nominal operations, ``min_bytes`` the bytes of inputs and outputs, which must move.
    ``structure`` is the hash with extents left out: equal for the same computation on other shapes.
    ``extents`` are those of all axes, in an order that workloads of one structure share.
    """

    hash: str
    structure: str
    name: str
    program: dict[str, Any]
    flops: int
    min_bytes: int
    dtype: str
    extents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """``schedule`` is the JSON form of the schedule, ``schedule_hash`` identifies it within a workload.

    ``trial`` counts from 0 within a run; ``versions`` names Tunesmith, LLVM and the schedule schema; of an
    observation, the program that made it in ``imported_from``.
    """

    id: str
    workload: Workload
    target: Target
    schedule: dict[str, Any]
    schedule_hash: str
    measurement: Measurement
    protocol: Protocol
    trial: int
    seed: int
    created_at: dt.datetime
    versions: dict[str, str]
    job_id: str | None = None

    @property
    def time_s(self) -> float:
        return self.measurement.time_s

    @property
    def gflops(self) -> float:
        return self.workload.flops / self.time_s / 1e9 if self.measurement.ok else 0.0

    @property
    def is_observation(self) -> bool:
        """Whether another program timed its own code for something like this schedule. Searches start from
        it and models learn from it; it is never served, since nobody has verified or timed this kernel."""
        return "imported_from" in self.versions
