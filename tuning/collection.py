"""Measurements of many tasks for the cost model to learn from.

    while the candidates of a task are measured, those of the next are chosen

One pool of builders serves all tasks; each has a runner of its own, which starts while its first candidates
are built. Trials are stored as those of a search are, so an interrupted collection goes on where it stopped.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from tunesmith.costmodel import Ranker
from tunesmith.ir import Program
from tunesmith.measure import BuildPool, Runner, detect_target, reserved_cores
from tunesmith.records import Protocol, Record
from tunesmith.schedule import Schedule
from tunesmith.search import derive
from tunesmith.tuning.pipeline import Pipeline, Trial, run_task
from tunesmith.tuning.pretrained import pretrained
from tunesmith.tuning.recording import Recorder, TrialStore
from tunesmith.tuning.samples import sample_schedules
from tunesmith.tuning.tasks import Task
from tunesmith.tuning.workload import workload_of

__all__ = ["CollectOptions", "CollectResult", "TaskDone", "collect"]


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """``per_task``: candidates of each task, those already on record included."""

    per_task: int = 64
    seconds: float | None = None
    threads: int = 1
    seed: int = 0
    protocol: Protocol = field(default_factory=Protocol)


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task that has all its trials: ``measured`` of them now, none if it was complete before.

    ``best_s``: the fastest on record, None if all failed. ``space_s``: deriving its space and choosing
    from it, which overlaps with the task before.
    """

    task: Task
    trials: int
    measured: int
    failed: int
    best_s: float | None
    elapsed_s: float
    space_s: float


@dataclass(frozen=True, slots=True)
class CollectResult:
    """``build_s``, ``run_s``: seconds of the workers; ``busy_s``: in which a candidate was on its way."""

    tasks: int
    complete: int
    trials: int
    failed: int
    elapsed_s: float
    build_s: float
    run_s: float
    busy_s: float
    interrupted: bool


@dataclass(frozen=True)
class _Plan:
    """What is to be measured of a task; ``history`` is what is on record."""

    task: Task
    program: Program
    recorder: Recorder
    history: list[Record]
    schedules: tuple[Schedule, ...]
    space_s: float


def collect(
    tasks: Iterable[Task],
    options: CollectOptions,
    store: TrialStore,
    on_task: Callable[[TaskDone], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> CollectResult:
    """Measure candidates of every task, good and bad ones; tasks that are complete in the store are passed
    over. Blocks until the tasks or the seconds end, or ``should_stop`` says so."""
    return _Collection(options, store, on_task, should_stop).run(tasks)


class _Collection:
    def __init__(
        self, options: CollectOptions, store: TrialStore, on_task: Callable[[TaskDone], None],
        should_stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.started = time.perf_counter()
        self.options, self.store, self.on_task, self.should_stop = options, store, on_task, should_stop
        self.target = detect_target(options.threads)
        self.tasks = self.complete = self.trials = self.failed = 0
        self.build_s = self.run_s = self.busy_s = 0.0

    def run(self, tasks: Iterable[Task]) -> CollectResult:
        with (
            BuildPool.beside_runs(self.options.threads, self.options.protocol) as builders,
            reserved_cores(self.options.threads),
            ThreadPoolExecutor(1) as ahead,
        ):
            plans = self._plans(tasks, ahead)
            coming = next(plans, None)
            while coming is not None and not self._is_over():
                plan, coming = coming.result(), next(plans, None)
                self._measure(plan, builders)
        return CollectResult(
            self.tasks, self.complete, self.trials, self.failed, self._elapsed(), self.build_s, self.run_s,
            self.busy_s, self.should_stop(),
        )  # fmt: skip

    def _elapsed(self) -> float:
        return time.perf_counter() - self.started

    def _is_over(self) -> bool:
        seconds = self.options.seconds
        return self.should_stop() or (seconds is not None and self._elapsed() >= seconds)

    # -- what to measure ----------------------------------------------------------------------------------

    def _plans(self, tasks: Iterable[Task], ahead: ThreadPoolExecutor) -> "Iterator[Future[_Plan]]":
        """A plan for each task that is not complete, made in another thread."""
        for task in tasks:
            if self._is_over():
                return
            workload, program = workload_of(task.program)
            recorder = Recorder(self.store, workload, self.target, self.options.protocol, self.options.seed)
            history = recorder.history()
            if len(history) >= self.options.per_task:
                self.complete += 1
                self._report(_Plan(task, program, recorder, history, (), 0.0), history, 0.0)
            else:
                yield ahead.submit(self._plan, task, program, recorder, history)

    def _plan(self, task: Task, program: Program, recorder: Recorder, history: list[Record]) -> _Plan:
        began = time.perf_counter()
        space = derive(program, self.target)
        ranker = Ranker(program, space.sketches, self.target, self.options.seed, pretrained().model)
        rng = np.random.default_rng([self.options.seed, task.index])
        known = {r.schedule_hash for r in history}
        drawn = sample_schedules(space, ranker, self.options.per_task, rng)
        missing = tuple(s for s in drawn if s.hash not in known)[: self.options.per_task - len(history)]
        return _Plan(task, program, recorder, history, missing, time.perf_counter() - began)

    # -- measuring it -------------------------------------------------------------------------------------

    def _measure(self, plan: _Plan, builders: BuildPool) -> None:
        """All trials of a task, unless the collection is over before."""
        began = time.perf_counter()
        records = list(plan.history)
        if plan.schedules:
            plan.recorder.introduce()
            with Runner(
                run_task(plan.program, self.target, self.options.seed), self.options.protocol
            ) as runner:
                pipeline = Pipeline(plan.program, self.target, builders, runner)
                for number, schedule in enumerate(plan.schedules, len(records)):
                    pipeline.submit(Trial(number, schedule))
                while pipeline.in_flight and not self._is_over():
                    for trial in pipeline.collect(lambda: _best_s(records)):
                        records.append(plan.recorder.record(trial))
                self._count(pipeline, records[len(plan.history) :])
                if pipeline.in_flight:
                    return
        self.tasks += 1
        self._report(plan, records, time.perf_counter() - began)

    def _count(self, pipeline: Pipeline, records: list[Record]) -> None:
        self.trials += len(records)
        self.failed += sum(not r.measurement.ok for r in records)
        self.build_s += pipeline.build_s
        self.run_s += pipeline.run_s
        self.busy_s += pipeline.busy_s

    def _report(self, plan: _Plan, records: list[Record], elapsed_s: float) -> None:
        failed = sum(not r.measurement.ok for r in records)
        measured = len(records) - len(plan.history)
        done = TaskDone(plan.task, len(records), measured, failed, _best_s(records), elapsed_s, plan.space_s)
        self.on_task(done)


def _best_s(records: list[Record]) -> float | None:
    return min((r.time_s for r in records if r.measurement.ok), default=None)
