"""Tuning runs in processes of their own, with what they cost: seconds, memory, training."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tunesmith.db import open_store
from tunesmith.frontend import operator
from tunesmith.ir import Program, parse
from tunesmith.measure import BuildPool, reserved_cores
from tunesmith.records import Record
from tunesmith.search import Search
from tunesmith.search.ports import CostModel
from tunesmith.tuning import Event, TuneOptions
from tunesmith.tuning.tuner import Session

__all__ = ["Memory", "Round", "Run", "program_of", "run_apart"]

_MEMORY_EVERY = 100  # trials


@dataclass(frozen=True)
class Memory:
    """Resident bytes after so many trials, of the tuner and of all its workers together."""

    trials: int
    tuner: int
    workers: int


@dataclass(frozen=True)
class Round:
    """Seconds that the model took to learn a batch, with so many trials known."""

    trials: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """``seconds`` are the tuner's own, ``wall_s`` those of the process, with its start. ``idle_s``: neither
    was anything built nor run; ``build_s`` and ``run_s`` are those of the workers. ``measured``: trials of
    this run, ``trials`` with those that were on record."""

    fingerprint: str
    schedule: dict[str, Any]
    trials: int
    measured: int
    stopped_by: str
    seconds: float
    idle_s: float
    build_s: float
    run_s: float
    search_s: float
    wall_s: float = 0.0
    memory: list[Memory] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    @property
    def trials_a_second(self) -> float:
        return self.measured / self.seconds

    @property
    def overhead(self) -> float:
        """Share of the time in which nothing was built or run."""
        return self.idle_s / self.seconds

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Run":
        memory, rounds = [Memory(**m) for m in data["memory"]], [Round(**r) for r in data["rounds"]]
        return Run(**{**data, "memory": memory, "rounds": rounds})


def program_of(source: str) -> Program:
    """A program in the expression language, or a named operator."""
    return parse(source) if source.startswith("def ") else operator(source)


def run_apart(source: str, db: Path, trials: int, seed: int, stubborn: bool = False) -> Run:
    """Tune in a fresh process. A ``stubborn`` run ends with its trials only, or with the space."""
    began = time.perf_counter()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        run = pool.submit(_run, source, db, trials, seed, stubborn).result()
    return Run(**{**vars(run), "wall_s": time.perf_counter() - began})


class _Timed:
    """A model whose learning is timed."""

    def __init__(self, model: CostModel, seconds: list[float]) -> None:
        self._model = model
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        began = time.perf_counter()
        self._model.observe(outcomes)
        self._seconds.append(time.perf_counter() - began)


class _Watched(Session):
    """A session that notes what it takes. With ``stubborn`` no plateau and no roofline end it."""

    def __init__(self, *arguments: Any, stubborn: bool, **options: Any) -> None:
        self.stubborn = stubborn
        self.memory: list[Memory] = []
        self.rounds: list[Round] = []
        self._learning: list[float] = []
        super().__init__(*arguments, on_event=self._watch, **options)

    @property
    def settled(self) -> Any:
        return None if self.stubborn else super().settled

    def _search(self, history: list[Record]) -> Search:
        search = super()._search(history)
        search.model = _Timed(search.model, self._learning)  # type: ignore[assignment]
        return search

    def _watch(self, event: Event) -> None:
        self.rounds += [Round(event.trial, s) for s in self._learning]
        self._learning.clear()
        if event.record is not None and event.trial % _MEMORY_EVERY == 0:
            pids = [pid for crew in (*self.pipeline.builders.crews, *self._runners()) for pid in crew.pids]
            self.memory.append(Memory(event.trial, _resident(os.getpid()), sum(map(_resident, pids))))

    def _runners(self) -> tuple[Any, ...]:
        return () if self.runner is None else self.runner.crews


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:  # a worker that is being replaced
        return 0


def _run(source: str, db: Path, trials: int, seed: int, stubborn: bool) -> Run:
    options = TuneOptions(trials=trials, seed=seed)
    with open_store(db) as store:
        session = _Watched(program_of(source), options, store, stubborn=stubborn)
        known = session.trials
        if session.budget_left <= 0:
            result = session.finish()
        else:
            with (
                closing(session),
                BuildPool.beside_runs(options.threads, options.protocol) as builders,
                reserved_cores(options.threads),
            ):
                session.open(builders)
                session.advance()
                result = session.finish()
    if result.best is None:
        raise SystemExit(f"no candidate of {source} works")
    times = result.times
    return Run(
        result.target.fingerprint, dict(result.best.schedule), result.trials, result.trials - known,
        result.stopped_by.value, result.elapsed_s, times["idle"], times["build"], times["run"],
        times["search"], memory=session.memory, rounds=session.rounds,
    )  # fmt: skip
