"""Candidates through the builder and the runner, as many at a time as keep both busy."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from tunesmith.codegen.binary import Binary
from tunesmith.ir import Program, dominant_dtype, needed_flops, program_to_json
from tunesmith.measure import BuildPool, Runner, RunTask, fastest_possible_s, wait_any
from tunesmith.records import Measurement, Target
from tunesmith.schedule import Schedule

__all__ = ["Pipeline", "Trial", "run_task"]

_POLL_S = 0.25


@dataclass(eq=False)
class Trial:
    """One schedule on its way: built, run, measured."""

    number: int
    schedule: Schedule
    binary: Binary | None = None
    build_s: float = 0.0
    measurement: Measurement | None = None


@dataclass
class Pipeline:
    """Owns nothing but the flow: trials go in, and come back with a measurement.

    ``busy_s`` counts the time in which something was being built or run. Builders may be shared with others
    that take turns: what was abandoned by one is passed over by the next.
    """

    program: Program
    target: Target
    builders: BuildPool
    runner: Runner
    in_flight: dict[Hashable, Trial] = field(default_factory=dict)
    build_s: float = 0.0
    run_s: float = 0.0
    busy_s: float = 0.0
    _since: float | None = None

    def __post_init__(self) -> None:
        self._program_json = program_to_json(self.program)
        self._target_json = self.target.to_json()
        self._share_cores()

    def submit(self, trial: Trial) -> None:
        if not self.in_flight:
            self._since = time.perf_counter()
        self.in_flight[trial] = trial
        self.builders.submit(trial, self._program_json, trial.schedule.to_json(), self._target_json)

    def _share_cores(self) -> None:
        """The cores that kernels are timed on build too, as long as none waits for being timed."""
        if self.runner.is_quiet:
            self.builders.resume()
        else:
            self.builders.pause()

    def collect(self, best_s: Callable[[], float | None]) -> list[Trial]:
        """Trials that ended; waits a moment for the first. ``best_s`` lets slow ones be cut short."""
        done: list[Trial] = []
        if self.in_flight:
            wait_any(self.builders, self.runner, timeout_s=_POLL_S)
        for built in self.builders.poll():
            trial = self.in_flight.get(built.key)
            if trial is None:
                continue
            trial.build_s = built.seconds
            self.build_s += built.seconds
            if built.binary is None:
                trial.measurement = Measurement(built.status, error=built.error, build_s=built.seconds)
                done.append(trial)
            else:
                trial.binary = built.binary
                self.builders.pause()
                self.runner.submit(trial, built.binary, best_s())
        for key, measurement in self.runner.poll():
            trial = self.in_flight.get(key)
            if trial is None:
                continue
            self.run_s += measurement.run_s
            trial.measurement = measurement
            done.append(trial)
        self._share_cores()
        for trial in done:
            del self.in_flight[trial]
        if done and not self.in_flight:
            self._count_busy()
        return done

    def count_run(self, seconds: float) -> None:
        """What the runner did besides, a race for instance, with nothing in flight."""
        self.run_s += seconds
        self.busy_s += seconds

    def drop(self) -> None:
        """Forget what is in flight."""
        if self.in_flight:
            self._count_busy()
            self.in_flight.clear()

    def drop_builds(self) -> None:
        """Forget what has not come to be run yet."""
        if self.in_flight:
            self.in_flight = {key: t for key, t in self.in_flight.items() if t.binary is not None}
            if not self.in_flight:
                self._count_busy()

    def abandon(self) -> None:
        """Forget what is in flight, and end the runner's worker, which may be busy with it."""
        self.drop()
        self.runner.suspend()

    def _count_busy(self) -> None:
        assert self._since is not None
        self.busy_s += time.perf_counter() - self._since


def run_task(program: Program, target: Target, seed: int) -> RunTask:
    """What a runner is told of a program; no kernel of it is faster than the bound given here."""
    dtype = dominant_dtype(program)
    fastest = fastest_possible_s(needed_flops(program), dtype, target.peaks, target.threads)
    return RunTask(program_to_json(program), seed, target.threads, fastest)
