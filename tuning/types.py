"""What a tuning run is asked, what it reports on the way, and what it gives in the end."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from tunesmith.ir import Program
from tunesmith.ir.errors import TunesmithError
from tunesmith.records import Lead, Protocol, Record, Status, Target, Workload

__all__ = [
    "MAX_SEED",
    "Event",
    "Halt",
    "ManyEvent",
    "ManyObserver",
    "ManyResult",
    "Observer",
    "StoppedBy",
    "TuneOptions",
    "TuneResult",
    "WeightedTask",
]

MAX_SEED = (1 << 63) - 1  # what a column of the database holds


class Halt(IntEnum):
    """How a run is asked to end before its time; a plain True means ``STOP``."""

    NO = 0
    STOP = 1  # what is being measured is finished, then comes the race
    PAUSE = 2  # what is being measured is finished, and nothing else is measured
    NOW = 3  # what is being measured is killed


class StoppedBy(StrEnum):
    """Why a run ended."""

    TRIALS = "trials"
    SECONDS = "seconds"
    PLATEAU = "plateau"
    ROOFLINE = "roofline"
    EXHAUSTED = "exhausted"  # every candidate of the space is measured
    INTERRUPTED = "interrupted"
    FAILURES = "failures"  # no candidate works
    TASKS = "tasks"  # of several tasks, each has ended by itself


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


@dataclass(frozen=True, slots=True)
class WeightedTask:
    """A program of a model, and how often the model calls it. ``label`` is for people.

    Raises TunesmithError for a weight that is not a positive number.
    """

    program: Program
    weight: float = 1.0
    label: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.weight, bool) or not 0 < self.weight < math.inf:
            raise TunesmithError(f"a weight must be a positive number, not {self.weight!r}")


@dataclass(frozen=True, slots=True)
class ManyEvent:
    """One thing that happened while several tasks are tuned.

    ``event`` is one of the task with this ``index``; without it, a slice of that task is over (phase
    ``slice``), or all is (``done``). ``trials`` are those of all tasks, out of ``budget``. The end-to-end
    times are sums of weight × seconds: of the best, and of the untuned schedules; None until each task has
    one. ``ended`` says why the task gets nothing more, once it does not.
    """

    phase: str
    index: int
    event: Event | None
    trials: int
    budget: int | None
    elapsed_s: float
    end_to_end_s: float | None
    untuned_s: float | None
    ended: StoppedBy | None = None


@dataclass(frozen=True, slots=True)
class ManyResult:
    """``results`` belong to ``tasks``, in their order. Tasks in which nothing works are in no sum."""

    tasks: tuple[WeightedTask, ...]
    results: tuple[TuneResult, ...]
    stopped_by: StoppedBy
    elapsed_s: float
    strategy: str

    @property
    def trials(self) -> int:
        return sum(r.trials for r in self.results)

    @property
    def pairs(self) -> tuple[tuple[WeightedTask, TuneResult], ...]:
        return tuple(zip(self.tasks, self.results, strict=True))

    @property
    def end_to_end_s(self) -> float:
        """Seconds of a call of everything: the sum of weight × best."""
        return sum(t.weight * r.best.time_s for t, r in self.pairs if r.best is not None)

    @property
    def untuned_s(self) -> float | None:
        """The same with the default schedules; None if one of them does not work."""
        known = [(t.weight, r.baselines.get("untuned")) for t, r in self.pairs if r.best is not None]
        times = [weight * time_s for weight, time_s in known if time_s is not None]
        return sum(times) if len(times) == len(known) else None

    def to_json(self) -> dict[str, Any]:
        """The object that ``tune --json`` ends with for several tasks."""
        return {
            "end_to_end_s": self.end_to_end_s,
            "untuned_s": self.untuned_s,
            "trials": self.trials,
            "stopped_by": self.stopped_by.value,
            "elapsed_s": self.elapsed_s,
            "strategy": self.strategy,
            "tasks": [{"label": t.label, "weight": t.weight, **r.to_json()} for t, r in self.pairs],
        }


ManyObserver = Callable[[ManyEvent], None]
"""Called in the tuner's thread for every event; must not raise."""
