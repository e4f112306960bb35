"""What a tuning run is asked, what it reports on the way, and what it gives in the end."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tunesmith.ir.errors import TunesmithError
from tunesmith.records import Lead, Protocol, Record, Status, Target, Workload

__all__ = ["MAX_SEED", "Event", "Observer", "StoppedBy", "TuneOptions", "TuneResult"]

MAX_SEED = (1 << 63) - 1  # what a column of the database holds


class StoppedBy(StrEnum):
    """Why a run ended."""

    TRIALS = "trials"
    SECONDS = "seconds"
    PLATEAU = "plateau"
    ROOFLINE = "roofline"
    EXHAUSTED = "exhausted"  # every candidate of the space is measured
    INTERRUPTED = "interrupted"
    FAILURES = "failures"  # no candidate works


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """``trials`` counts trials already recorded for this program and target, unless ``fresh``.

    Raises TunesmithError for numbers that make no sense.
    """

    trials: int | None = 64
    seconds: float | None = None
    threads: int = 1
    seed: int = 0
    fresh: bool = False
    protocol: Protocol = field(default_factory=Protocol)

    def __post_init__(self) -> None:
        if self.trials is not None and not _is_count(self.trials, 1):
            raise TunesmithError(f"trials must be a positive integer or None, not {self.trials!r}")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise TunesmithError(f"seconds must be a positive number or None, not {self.seconds!r}")
        if not _is_count(self.threads, 1):
            raise TunesmithError(f"threads must be a positive integer, not {self.threads!r}")
        if not _is_count(self.seed, 0) or self.seed > MAX_SEED:
            raise TunesmithError(f"seed must be an integer from 0 to 2**63 - 1, not {self.seed!r}")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: a trial ended, or a phase (``start search race done``) began.

    ``trial`` counts finished trials, ``record`` is the trial's record, ``best`` the best so far.
    ``untuned_s`` is the time of the default schedule once it is known. ``message`` is for people.
    """

    phase: str
    trial: int
    trials: int | None
    elapsed_s: float
    record: Record | None = None
    best: Record | None = None
    untuned_s: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class TuneResult:
    """``baselines``: seconds a call by name, measured in this run: ``untuned``, and ``numpy`` for programs
    large enough that its arithmetic is what takes the time.

    ``times``: seconds spent by part (``build run search other``). ``disabled_rules``: sketch rules that
    failed on this program, with the reason; the search went on without them. ``leads``: what the winner of
    the final race is ahead of, by name: ``next`` for the second best candidate, ``untuned``.
    """

    workload: Workload
    target: Target
    trials: int
    statuses: dict[Status, int]
    stopped_by: StoppedBy
    elapsed_s: float
    best: Record | None
    baselines: dict[str, float]
    times: dict[str, float]
    disabled_rules: tuple[str, ...] = ()
    leads: dict[str, Lead] = field(default_factory=dict)

    @property
    def peak_fraction(self) -> float | None:
        """Best GFLOP/s over the measured FMA peak of the threads used."""
        if self.best is None:
            return None
        peak = self.target.peaks.f32_gflops if self.workload.dtype == "f32" else self.target.peaks.f64_gflops
        return self.best.gflops / (peak * self.target.threads)

    def to_json(self) -> dict[str, Any]:
        """The object that ``tune --json`` ends with."""
        best = self.best
        return {
            "workload": {
                "hash": self.workload.hash,
                "name": self.workload.name,
                "flops": self.workload.flops,
                "min_bytes": self.workload.min_bytes,
            },
            "target": {"fingerprint": self.target.fingerprint, **self.target.to_json()},
            "trials": self.trials,
            "statuses": {s.value: n for s, n in sorted(self.statuses.items())},
            "stopped_by": self.stopped_by.value,
            "elapsed_s": self.elapsed_s,
            "best": None
            if best is None
            else {
                "record": best.id,
                "time_s": best.time_s,
                "gflops": best.gflops,
                "peak_fraction": self.peak_fraction,
                "schedule": best.schedule,
            },
            "baselines": self.baselines,
            "times": self.times,
            "leads": {name: lead.to_json() for name, lead in self.leads.items()},
            "disabled_rules": list(self.disabled_rules),
        }


Observer = Callable[[Event], None]
"""Called in the tuner's thread for every event; must not raise."""
