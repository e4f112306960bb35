"""Several programs, such as those of a model, tuned under one budget.

    the task that promises most gets a slice of trials, again and again; then each has its race

All tasks share the builders. A runner belongs to a task: those of the tasks that had the last few slices stay
alive, without work, and the others end until it is their turn again.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np

from tunesmith.ir import TunesmithError
from tunesmith.measure import BuildPool, reserved_cores
from tunesmith.tuning.feasible import check_memory
from tunesmith.tuning.scheduler import (
    STRATEGIES,
    Allocation,
    Standing,
    end_to_end_s,
    is_dead,
    slice_size,
)
from tunesmith.tuning.tasks import estimate_s
from tunesmith.tuning.tuner import Session, Store, end_s
from tunesmith.tuning.types import (
    Event,
    Halt,
    ManyEvent,
    ManyObserver,
    ManyResult,
    StoppedBy,
    TuneOptions,
    TuneResult,
    WeightedTask,
)
from tunesmith.tuning.workload import workload_of

__all__ = ["TRIALS_A_TASK", "merge_tasks", "tune_many"]

TRIALS_A_TASK = 64  # where no budget is given
_AWAKE = 4  # runners: one more holds 35 MB, one less takes its core for 0.3 s when it starts again
_SIMILAR_SIZE = 1.618  # tasks of one structure are alike if their operations differ by less, about


def merge_tasks(tasks: Sequence[WeightedTask]) -> tuple[WeightedTask, ...]:
    """Identical programs as one task: the first one's label, and the weights of all added up."""
    merged: dict[str, WeightedTask] = {}
    for task in tasks:
        key = workload_of(task.program)[0].hash
        known = merged.get(key)
        label = task.label or task.program.name
        merged[key] = (
            replace(task, label=label) if known is None else replace(known, weight=known.weight + task.weight)
        )
    return tuple(merged.values())


def tune_many(
    tasks: Sequence[WeightedTask],
    options: TuneOptions,
    store: Store,
    on_event: ManyObserver = lambda _: None,
    should_stop: Callable[[], int] = lambda: Halt.NO,
    job_id: str | None = None,
    strategy: str = "gradient",
) -> ManyResult:
    """Make the sum of weight × time of several programs small; every trial is stored as it ends.

    The options' ``trials`` and ``seconds`` are for all tasks together. Trials on record count, but each task
    gets its first slice. Blocks until a budget ends it, or each task has ended by itself, or ``should_stop``
    says so; then each task that had a trial has its race, as in ``tune``. Raises TunesmithError for no task,
    for fewer trials than tasks, and for a program that this machine has no memory for.
    """
    merged = merge_tasks(tasks)
    if not merged:
        raise TunesmithError("give at least one task")
    if options.trials is not None and options.trials < len(merged):
        raise TunesmithError(f"{options.trials} trials are too few for {len(merged)} tasks")
    if strategy not in STRATEGIES:
        raise TunesmithError(f"no strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    for task in merged:
        check_memory(task.program)
    return _Many(merged, options, store, on_event, should_stop, job_id, strategy).run()


def _start_of(task: WeightedTask, session: Session) -> Standing:
    work = session.workload
    size = int(math.log(work.flops + 1, _SIMILAR_SIZE))
    return Standing(
        task.weight,
        estimate_s(task.program),
        bound_s=session.bound_s,
        flops=work.flops,
        group=f"{work.structure} {work.dtype} {size}",
    )


class _Many:
    def __init__(
        self, tasks: tuple[WeightedTask, ...], options: TuneOptions, store: Store, on_event: ManyObserver,
        should_stop: Callable[[], int], job_id: str | None, strategy: str,
    ) -> None:  # fmt: skip
        self.started = time.perf_counter()
        self.tasks, self.options, self.on_event = tasks, options, on_event
        self.should_stop, self.strategy = should_stop, strategy
        self.deadline = math.inf if options.seconds is None else self.started + options.seconds
        self.until = self.deadline - end_s(options.seconds, len(tasks))
        self.allocation = Allocation(slice_size(options.trials, len(tasks)))
        self.rng = np.random.default_rng(options.seed)
        self.ended: dict[int, StoppedBy] = {}
        self.stopped = StoppedBy.TASKS
        self.awake: deque[int] = deque()
        each = replace(options, trials=None, seconds=None)
        self.sessions = [
            Session(t.program, each, store, self._observer(i), should_stop, job_id, self.deadline)
            for i, t in enumerate(tasks)
        ]
        self.starts = [_start_of(t, s) for t, s in zip(tasks, self.sessions, strict=True)]
        for i in range(len(tasks)):
            self._note_end(i)

    # -- the act, top to bottom ---------------------------------------------------------------------------

    def run(self) -> ManyResult:
        with ExitStack() as stack:
            builders: BuildPool | None = None
            while (index := self._next()) is not None:
                builders = builders or self._start(stack)
                self._slice(index, builders)
            results = [self._finish(i) for i in range(len(self.tasks))]
        if self.should_stop() >= Halt.PAUSE:
            self.stopped = StoppedBy.INTERRUPTED
        elapsed = self._elapsed()
        self._emit("done", index=len(self.tasks) - 1)
        return ManyResult(self.tasks, tuple(results), self.stopped, elapsed, self.strategy)

    def _start(self, stack: ExitStack) -> BuildPool:
        builders = stack.enter_context(BuildPool.beside_runs(self.options.threads, self.options.protocol))
        stack.enter_context(reserved_cores(self.options.threads))
        for session in self.sessions:
            stack.enter_context(closing(session))
        return builders

    def _next(self) -> int | None:
        """Whose turn it is; None, and why, if there is no more to do."""
        if self.should_stop():
            self.stopped = StoppedBy.INTERRUPTED
        elif time.perf_counter() >= self.until:
            self.stopped = StoppedBy.SECONDS
        else:
            standings = self._standings()
            if self._budget_left() <= 0:
                self.stopped = StoppedBy.TRIALS
                standings = [replace(s, closed=s.closed or self._first(s) <= 0) for s in standings]
            return STRATEGIES[self.strategy](standings, self.allocation, self.rng)
        return None

    def _slice(self, index: int, builders: BuildPool) -> None:
        session = self.sessions[index]
        self._wake(index)
        if not session.is_open:
            session.open(builders)
        missing = self._first(self._standing(index))
        trials = missing if missing > 0 else min(self.allocation.slice, self._budget_left())
        session.advance(trials, self.until)
        self._note_end(index)
        if index in self.ended:
            session.rest()
            self.awake.remove(index)
        self._emit("slice", index)

    def _note_end(self, index: int) -> None:
        """A task that has ended gets nothing more; it may have in an earlier run."""
        session = self.sessions[index]
        dead = is_dead(self._standing(index), self.allocation)
        reason = StoppedBy.FAILURES if dead else session.stopped or session.settled
        if reason is not None:
            self.ended[index] = reason

    def _wake(self, index: int) -> None:
        if index in self.awake:
            self.awake.remove(index)
        self.awake.append(index)
        while len(self.awake) > _AWAKE:
            self.sessions[self.awake.popleft()].rest()

    def _finish(self, index: int) -> TuneResult:
        session = self.sessions[index]
        result = session.finish(self.ended.get(index, self.stopped))
        session.close()
        return result

    # -- how it stands ------------------------------------------------------------------------------------

    def _standing(self, index: int) -> Standing:
        session, start = self.sessions[index], self.starts[index]
        return replace(
            start,
            expected_s=session.untuned_s or start.expected_s,
            curve=session.curve,
            closed=index in self.ended,
        )

    def _standings(self) -> list[Standing]:
        return [self._standing(i) for i in range(len(self.tasks))]

    def _first(self, standing: Standing) -> int:
        """Trials that are missing of a first slice."""
        return self.allocation.slice - standing.trials

    def _budget_left(self) -> int:
        trials = self.options.trials
        return 1_000_000 if trials is None else trials - self._trials()

    def _trials(self) -> int:
        return sum(s.trials for s in self.sessions)

    def _elapsed(self) -> float:
        return time.perf_counter() - self.started

    # -- what is told -------------------------------------------------------------------------------------

    def _observer(self, index: int) -> Callable[[Event], None]:
        return lambda event: self._emit(event.phase, index, event)

    def _emit(self, phase: str, index: int, event: Event | None = None) -> None:
        untuned = [s.untuned_s for s in self.sessions if s.best is not None]
        weights = [t.weight for t, s in zip(self.tasks, self.sessions, strict=True) if s.best is not None]
        known = [w * u for w, u in zip(weights, untuned, strict=True) if u is not None]
        end_to_end = end_to_end_s(self._standings())
        self.on_event(
            ManyEvent(
                phase, index, event, self._trials(), self.options.trials, self._elapsed(), end_to_end,
                sum(known) if end_to_end is not None and len(known) == len(untuned) else None,
                self.ended.get(index),
            )
        )  # fmt: skip
