"""What one trial gave: times or a reason, and the protocol it was measured under."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tunesmith.records.members import members

__all__ = ["Measurement", "Protocol", "Status"]


class Status(StrEnum):
    """How a trial ended. All but ``ok`` are failures that the run survives."""

    OK = "ok"
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_ERROR = "run_error"
    RUN_TIMEOUT = "run_timeout"
    OUT_OF_BOUNDS = "out_of_bounds"
    WRONG_ANSWER = "wrong_answer"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Protocol:
    """How times are taken; part of a record, since kernels rank differently under different protocols.

    A sample is a batch of calls inside compiled code that lasts at least ``sample_s``.
    """

    cache: str = "warm"  # warm: operands as the previous call left them; cold: flushed before each call
    samples: int = 10
    sample_s: float = 0.003
    warmup_s: float = 0.002
    cut_off: float = 1.5  # stop after two samples when slower than the best by this factor, later by less
    build_timeout_s: float = 15.0
    run_timeout_s: float = 20.0

    def to_json(self) -> dict[str, Any]:
        return members(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Protocol":
        return Protocol(**data)


@dataclass(frozen=True, slots=True)
class Measurement:
    """``times_s``: seconds a call, one value a sample. ``error``: text of the fault, empty when ``ok``.

    ``max_error`` and ``tolerance`` are the largest absolute deviation from the reference relative to its
    scale, and the bound it was held against. ``drift`` is the machine's speed at that moment relative
    to the calibration at start (1 = same, below 1 = slower).
    """

    status: Status
    times_s: tuple[float, ...] = ()
    error: str = ""
    signal: int = 0
    build_s: float = 0.0
    run_s: float = 0.0
    max_error: float | None = None
    tolerance: float | None = None
    drift: float = 1.0

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    @property
    def time_s(self) -> float:
        """Median of the samples; infinite for a failure."""
        return statistics.median(self.times_s) if self.times_s else float("inf")

    @property
    def spread(self) -> float:
        """Interquartile range over median; 0 with fewer than four samples."""
        if len(self.times_s) < 4:
            return 0.0
        low, mid, high = statistics.quantiles(self.times_s, n=4)
        return (high - low) / mid

    def to_json(self) -> dict[str, Any]:
        return {**members(self), "times_s": list(self.times_s)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Measurement":
        return Measurement(**{**data, "status": Status(data["status"]), "times_s": tuple(data["times_s"])})
