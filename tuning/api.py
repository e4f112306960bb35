"""The Python face: load, tune and the kernel decorator over programs, texts and decorated functions."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from tunesmith.codegen import Binary, build
from tunesmith.codegen.llvm import BuildError
from tunesmith.db import open_store
from tunesmith.db.store import Store
from tunesmith.ir import Program, parse, program_from_function
from tunesmith.measure import detect_target
from tunesmith.records import Protocol, Record, Target
from tunesmith.schedule import IllegalStep, Schedule, ScheduleError
from tunesmith.tuning.guess import guess
from tunesmith.tuning.kernel import Kernel
from tunesmith.tuning.many import TRIALS_A_TASK, merge_tasks
from tunesmith.tuning.many import tune_many as run_many
from tunesmith.tuning.near import Estimate, NothingNear, estimate
from tunesmith.tuning.tuner import tune as run_tuner
from tunesmith.tuning.types import ManyObserver, ManyResult, Observer, TuneOptions, TuneResult, WeightedTask
from tunesmith.tuning.workload import workload_of

__all__ = ["KernelFunction", "kernel", "load", "near", "tune", "tune_many"]


class KernelFunction:
    """What ``@kernel`` makes of a function in the expression language: a program that can be called.

    The first call loads the best known schedule; ``tune`` searches for a better one, which then is used.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.__name__ = program.name
        self._kernel: Kernel | None = None

    def load(self, *, threads: int = 1, db: str | os.PathLike[str] | None = None) -> Kernel:
        self._kernel = load(self.program, threads=threads, db=db)
        return self._kernel

    def tune(self, **options: Any) -> TuneResult:
        """As ``tunesmith.tune``; later calls use the winner."""
        result = tune(self.program, **options)
        self._kernel = load(self.program, threads=options.get("threads", 1), db=options.get("db"))
        return result

    def bind(self, **constants: Any) -> Kernel:
        return (self._kernel or self.load()).bind(**constants)

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        return (self._kernel or self.load())(*arguments, out=out)

    def __repr__(self) -> str:
        return f"<kernel {self.program.name}({', '.join(t.name for t in self.program.inputs)})>"


def kernel(function: Callable[..., Any]) -> KernelFunction:
    """Decorator: reads the function's source as a program. Its body is parsed, never run.

    Raises ProgramError with the line and column in the function's file.
    """
    return KernelFunction(program_from_function(function))


def _program(source: Program | KernelFunction | str) -> Program:
    if isinstance(source, KernelFunction):
        return source.program
    return parse(source) if isinstance(source, str) else source


def _store(db: str | os.PathLike[str] | None) -> Store:
    """The database named by ``db``, by TUNESMITH_DB, or the user's own."""
    return open_store(db if db is not None else os.environ.get("TUNESMITH_DB") or None)


def tune(
    program: Program | KernelFunction | str,
    *,
    trials: int | None = 64,
    seconds: float | None = None,
    threads: int = 1,
    seed: int = 0,
    fresh: bool = False,
    db: str | os.PathLike[str] | None = None,
    protocol: Protocol | None = None,
    on_event: Observer = lambda _: None,
) -> TuneResult:
    """Search for the fastest schedule of a program on this machine. Every trial is kept in the database.

    Trials already recorded for the program and this machine count, unless ``fresh``.
    """
    options = TuneOptions(trials, seconds, threads, seed, fresh, protocol or Protocol())
    with _store(db) as store:
        return run_tuner(_program(program), options, store, on_event)


def tune_many(
    tasks: Iterable[Program | KernelFunction | str | tuple[Program | KernelFunction | str, float]],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    threads: int = 1,
    seed: int = 0,
    fresh: bool = False,
    strategy: str = "gradient",
    db: str | os.PathLike[str] | None = None,
    protocol: Protocol | None = None,
    on_event: ManyObserver = lambda _: None,
) -> ManyResult:
    """Tune several programs, each alone or with a weight, so that the sum of weight × time becomes small.

    ``trials`` and ``seconds`` are for all together; with neither, there are 64 trials a program. Trials
    already recorded count, unless ``fresh``. Identical programs are one. The strategy is ``gradient`` or
    ``round-robin``.
    """
    pairs = (t if isinstance(t, tuple) else (t, 1.0) for t in tasks)
    merged = merge_tasks([WeightedTask(_program(source), weight) for source, weight in pairs])
    if trials is None and seconds is None:
        trials = TRIALS_A_TASK * max(1, len(merged))
    options = TuneOptions(trials, seconds, threads, seed, fresh, protocol or Protocol())
    with _store(db) as store:
        return run_many(merged, options, store, on_event, strategy=strategy)


def load(
    program: Program | KernelFunction | str,
    *,
    threads: int = 1,
    db: str | os.PathLike[str] | None = None,
    record: Record | None = None,
    near: bool = False,
) -> Kernel:
    """A callable that uses the best known schedule for this machine, or ``record``'s.

    With none known, or none that this version can rebuild here, it is what ``near`` suggests if that is asked
    for and there is something, else the cost model's guess, compiled: never an error. ``Kernel.record`` says
    which.
    """
    mine = _program(program)
    workload, form = workload_of(mine)
    target = detect_target(threads)
    if record is not None:
        return Kernel(mine, *_rebuild(form, record, target), record)
    with _store(db) as store:
        best = store.best(workload.hash, target)
    if best is not None:
        try:
            return Kernel(mine, *_rebuild(form, best.record, target), best.record)
        except (ScheduleError, IllegalStep, BuildError):  # of another version, or for another machine
            pass
    if near:
        with _store(db) as store, suppress(NothingNear, IllegalStep, BuildError):
            schedule = estimate(mine, target, store).schedules[0]
            return Kernel(mine, schedule, build(form, schedule, target))
    return Kernel(mine, *guess(form, target))


def near(
    program: Program | KernelFunction | str,
    *,
    threads: int = 1,
    db: str | os.PathLike[str] | None = None,
) -> Estimate:
    """What records of the same computation on other shapes suggest for this one, with an estimated time and
    loss; nothing is measured. Raises TunesmithError when there are none that help."""
    with _store(db) as store:
        return estimate(_program(program), detect_target(threads), store)


def _rebuild(form: Program, record: Record, target: Target) -> tuple[Schedule, Binary]:
    schedule = Schedule.from_json(record.schedule)
    return schedule, build(form, schedule, target)
