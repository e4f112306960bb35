"""The whole act: propose, build, run, record; then a final race.

    while batch n runs, batch n+1 is built and batch n+2 proposed

A batch is proposed when the one before the last is finished, from everything told until then in the order of
trials: with the same seed, records and measurements, the same candidates come. A session takes these steps a
slice at a time; ``tune`` takes them all.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from statistics import median
from typing import Protocol as Interface

import numpy as np

from tunesmith.codegen.binary import Binary
from tunesmith.costmodel import Ranker
from tunesmith.ir import DType, Program, needed_flops, program_to_json
from tunesmith.measure import BuildPool, Runner, detect_target, reserved_cores
from tunesmith.records import Lead, Record, Status, Target, lead_of
from tunesmith.schedule import Schedule
from tunesmith.search import Candidate, Search, derive
from tunesmith.search.default import default_schedule
from tunesmith.tuning.feasible import check_memory
from tunesmith.tuning.neighbours import NeighbourStore, seeds
from tunesmith.tuning.pipeline import Pipeline, Trial, run_task
from tunesmith.tuning.pretrained import pretrained
from tunesmith.tuning.recording import Recorder, TrialStore, schedule_of
from tunesmith.tuning.types import Event, Halt, Observer, StoppedBy, TuneOptions, TuneResult
from tunesmith.tuning.workload import workload_of

__all__ = ["Served", "Session", "Store", "end_s", "tune"]

_ROOFLINE = 0.985  # of the bound: what is left is not worth more trials
_FAILURES = 40  # trials, all failed, after which something is wrong with more than the candidates
_CONTENDERS = 5
_HOPELESS = 3.0  # times slower than the best: the untuned schedule has lost without a race
_NUMPY_LEAST_S = 3e-4  # a stage: below, the reference's bookkeeping would be timed rather than NumPy
_LARGE_BYTES = 64 << 20  # of arguments, beyond which the winner is verified on fewer inputs
_BATCH_SIZE, _LARGEST_BATCH = 8, 24
_BATCH_SHARE = 16  # of the trials so far, one in so many is proposed at once


class Served(Interface):
    """A record and the seconds that it is ranked by: its race's, or its trial's."""

    @property
    def record(self) -> Record: ...
    @property
    def time_s(self) -> float: ...


class Store(TrialStore, NeighbourStore, Interface):
    """What tuning needs of a database. Called from the tuner's thread; every ``add`` is durable."""

    def best(self, workload_hash: str, target: Target, *, cache: str) -> Served | None: ...
    def set_race(self, times_s: Mapping[str, float], *, job_id: str | None = None) -> None: ...


def tune(
    program: Program,
    options: TuneOptions,
    store: Store,
    on_event: Observer = lambda _: None,
    should_stop: Callable[[], int] = lambda: Halt.NO,
    job_id: str | None = None,
) -> TuneResult:
    """Search for the fastest schedule of a program on this machine; every trial is stored as it ends.

    Blocks until a budget, a plateau or the roofline ends it, or ``should_stop``, which is asked a few times a
    second, says so and how (``Halt``). The winner of the final race, in which the untuned schedule takes part
    unless it is hopelessly slower, is what the store serves from then on. Raises TunesmithError for a program
    that this machine has no memory for.
    """
    check_memory(program)
    deadline = math.inf if options.seconds is None else time.perf_counter() + options.seconds
    session = Session(program, options, store, on_event, should_stop, job_id, deadline)
    if session.budget_left <= 0 and session.best is not None:
        return session.finish(StoppedBy.TRIALS)
    with (
        closing(session),
        BuildPool.beside_runs(options.threads, options.protocol) as builders,
        reserved_cores(options.threads),
    ):
        session.open(builders)
        session.advance(until=deadline - end_s(options.seconds))
        return session.finish()


def end_s(seconds: float | None, tasks: int = 1) -> float:
    """Seconds of a budget to leave for the races and the last verifications."""
    return 0.0 if seconds is None else min(1.0 * tasks, 0.25 * seconds)


@dataclass
class _State:
    """What a run knows; ``binaries`` are kept for the fastest few only. ``curve``: the best seconds after
    each trial, infinite before one worked."""

    records: list[Record] = field(default_factory=list)
    curve: list[float] = field(default_factory=list)
    binaries: dict[str, Binary] = field(default_factory=dict)
    best: Record | None = None
    untuned: Record | None = None
    last_gain: int = 0


_Batch = list[tuple[Trial, Candidate | None]]


class Session:
    """The tuning of one program, in as many steps as its owner likes.

        session = Session(program, options, store)      knows what is on record, and starts nothing
        session.open(builders)                          its runner
        session.advance(trials)                         again and again; rest() when it is another's turn
        session.finish()                                the race, the verification, the result

    One session advances at a time, and only one that is awake holds a process. ``builders`` may be shared.
    The clock runs while the session does something; ``deadline``, of ``time.perf_counter``, is when all of it
    should be over. The seconds of the options are its owner's affair.
    """

    def __init__(
        self,
        program: Program,
        options: TuneOptions,
        store: Store,
        on_event: Observer = lambda _: None,
        should_stop: Callable[[], int] = lambda: Halt.NO,
        job_id: str | None = None,
        deadline: float = math.inf,
    ) -> None:
        self.options, self.store = options, store
        self.on_event, self.should_stop, self.job_id = on_event, should_stop, job_id
        self.deadline = deadline
        self.workload, self.program = workload_of(program)
        self.state = _State()
        self.stopped: StoppedBy | None = None
        self.search_s = self.spent_s = 0.0
        self.since: float | None = None
        self.statuses: Counter[Status] = Counter()
        self.leads: dict[str, Lead] = {}
        self.runner: Runner | None = None
        self.began = False
        self.untuned_tried = False  # it works, or this job found that it does not
        self.batches: deque[_Batch] = deque()
        with self._at_work():
            self.target = detect_target(options.threads)
            self.recorder = Recorder(
                store, self.workload, self.target, options.protocol, options.seed, job_id
            )
            self.recorder.introduce()
            self._resume(self.recorder.history(own=options.fresh))
        self.planned = len(self.state.records)
        self.numbers = count(max((r.trial + 1 for r in self.state.records), default=0))

    # -- how it stands ------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.runner is not None

    @property
    def trials(self) -> int:
        """Those on record that count, and those measured now."""
        return len(self.state.records)

    @property
    def best(self) -> Record | None:
        return self.state.best

    @property
    def untuned_s(self) -> float | None:
        """The time of the default schedule, once it is known."""
        return self.state.untuned.time_s if self.state.untuned else None

    @property
    def curve(self) -> Sequence[float]:
        """The best seconds after each trial, infinite before one worked."""
        return self.state.curve

    @property
    def budget_left(self) -> int:
        return self._budget_left(len(self.state.records))

    @cached_property
    def bound_s(self) -> float:
        """Seconds that arithmetic and memory need at least."""
        peak = self.target.peaks.gflops(DType(self.workload.dtype)) * 1e9 * self.options.threads
        bound = needed_flops(self.program) / peak
        if self.workload.min_bytes > 2 * (self.target.l3_bytes or self.target.l2_bytes):
            bound = max(bound, self.workload.min_bytes / (self.target.peaks.dram_gbs * 1e9))
        return bound

    # -- the act, top to bottom ---------------------------------------------------------------------------

    def open(self, builders: BuildPool) -> None:
        """Start the runner. Once, before ``advance``."""
        with self._at_work():
            task = run_task(self.program, self.target, self.options.seed)
            self.runner = Runner(task, self.options.protocol, give_up=lambda: self.should_stop() >= Halt.NOW)
            self._emit("start", message=f"{self.trials} trials on record" if self.trials else "")
            self.pipeline = Pipeline(self.program, self.target, builders, self.runner)

    def advance(self, trials: int | None = None, until: float = math.inf) -> None:
        """Measure so many more candidates, by default as many as the options allow, until that moment.

        ``stopped`` says what ended it: then something may be in flight, and ``rest`` comes before another's
        turn. None if nothing did and there is more to try.
        """
        most = math.inf if trials is None else self.trials + trials
        with self._at_work():
            if not self.began:
                self._begin()
            self.stopped = self._trials(most, until)

    def _begin(self) -> None:
        """Derive the space and tell the search what is on record, while the untuned schedule is measured."""
        history = list(self.state.records)
        if not self.untuned_tried:
            self._submit([(Trial(next(self.numbers), default_schedule(self.program, self.target)), None)])
        self.search = self._search(history)
        self.began = True
        for reason in self.search.space.disabled:
            self._emit("search", message=f"sketch rule disabled for this program: {reason}")

    def finish(self, stopped: StoppedBy | None = None) -> TuneResult:
        """What came out, after a race if there was anything new. ``stopped``: why there is no more, if it is
        its owner who decided."""
        self.stopped = stopped or self.stopped or StoppedBy.TRIALS
        with self._at_work():
            if self.runner is None:
                self._recall()
                return self._result({}, 0.0)
            self.pipeline.drop()
            baselines = {} if self._is_halted() else self._finish(self.runner)
            if self._is_halted():
                self.stopped = StoppedBy.INTERRUPTED
            return self._result(baselines, self.pipeline.busy_s)

    def rest(self) -> None:
        """Hold no process until it goes on. What is in flight is dropped."""
        if self.runner is not None:
            self.pipeline.abandon()
            self.batches.clear()
            self.planned = len(self.state.records)

    def close(self) -> None:
        """End the runner for good."""
        if self.runner is not None:
            self.runner.close()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """The clock runs."""
        self.since = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s, self.since = self._elapsed(), None

    def _recall(self) -> None:
        """The best is what the store serves, if that is one of ours: it may have won a race."""
        served = self.store.best(self.workload.hash, self.target, cache=self.options.protocol.cache)
        if served is not None and served.record.id in {r.id for r in self.state.records}:
            self.state.best = _with_times(served.record, (served.time_s,))

    def _search(self, history: list[Record]) -> Search:
        began = time.perf_counter()
        space = derive(self.program, self.target)
        model = pretrained().model
        ranker = Ranker(self.program, space.sketches, self.target, self.options.seed, model)
        search = Search(space, ranker, np.random.default_rng(self.options.seed))
        default = default_schedule(self.program, self.target)
        known = [(schedule_of(r), r) for r in history]
        if not self.options.fresh:
            warm = seeds(self.store, self.workload, space, self.target, self.options.seed, observed=True)
            search.seed(warm.candidates)
            for note in warm.notes:
                self._emit("search", message=note)
        search.forget([default, *(s for s, _ in known if s is not None)])
        outcomes: list[tuple[Candidate, float | None]] = []
        for schedule, record in known:
            candidate = None if schedule is None else space.locate(schedule)
            if candidate is not None:
                outcomes.append((candidate, record.time_s if record.measurement.ok else None))
        if outcomes:
            search.tell(outcomes)
        self.search_s += time.perf_counter() - began
        return search

    def _resume(self, history: list[Record]) -> None:
        for record in history:
            self._note(record)
        default = default_schedule(self.program, self.target).hash
        untuned = [r for r in history if r.schedule_hash == default]
        self.state.untuned = next((r for r in untuned if r.measurement.ok), None)
        own = any(r.job_id == self.job_id for r in untuned) if self.job_id is not None else False
        self.untuned_tried = own or self.state.untuned is not None

    # -- trials -------------------------------------------------------------------------------------------

    def _trials(self, most: float, until: float) -> StoppedBy | None:
        """Keep two batches in flight until there are ``most`` trials or something ends the run."""
        while True:
            stopped = self._stop_reason(until)
            if stopped is not None:
                if stopped is StoppedBy.INTERRUPTED:
                    self._finish_running()
                return stopped
            room = min(self._budget_left(self.planned), most - self.planned)
            if len(self.batches) < 2 and room > 0:
                candidates = self._propose(min(self._batch_size(), int(room)))
                if candidates:
                    self._submit([(self._trial(c), c) for c in candidates])
                elif not self.pipeline.in_flight:
                    return StoppedBy.EXHAUSTED
            elif not self.pipeline.in_flight:
                return StoppedBy.TRIALS if self.budget_left <= 0 else None
            self._collect()
            self._tell()

    def _collect(self) -> None:
        for trial in self.pipeline.collect(lambda: self.state.best.time_s if self.state.best else None):
            self._record(trial)

    def _finish_running(self) -> None:
        """What is being measured is finished, unless it is to be killed; what is being built is dropped."""
        self.pipeline.drop_builds()
        while self.pipeline.in_flight and self.should_stop() < Halt.NOW:
            self._collect()

    def _is_halted(self) -> bool:
        """Whether nothing new may be measured, not even a race."""
        return self.should_stop() >= Halt.PAUSE

    def _trial(self, candidate: Candidate) -> Trial:
        return Trial(next(self.numbers), self.search.schedule(candidate))

    def _submit(self, batch: _Batch) -> None:
        self.batches.append(batch)
        self.planned += len(batch)
        for trial, _ in batch:
            self.pipeline.submit(trial)

    def _batch_size(self) -> int:
        if self.planned < _BATCH_SIZE:
            return _BATCH_SIZE // 2
        return min(max(_BATCH_SIZE, self.planned // _BATCH_SHARE), _LARGEST_BATCH)

    def _propose(self, count: int) -> list[Candidate]:
        began = time.perf_counter()
        candidates = self.search.propose(count)
        self.search_s += time.perf_counter() - began
        return candidates

    def _tell(self) -> None:
        """Report finished batches to the search, in order."""
        while self.batches and all(t.measurement is not None for t, _ in self.batches[0]):
            began = time.perf_counter()
            outcomes = [
                (c, t.measurement.time_s if t.measurement.ok else None)
                for t, c in self.batches.popleft()
                if c is not None and t.measurement is not None
            ]
            if outcomes:
                self.search.tell(outcomes)
            self.search_s += time.perf_counter() - began

    def _record(self, trial: Trial) -> None:
        """Store a finished trial, then tell the observer."""
        record = self.recorder.record(trial)
        self._note(record)
        if self.state.untuned is None and record.measurement.ok:
            is_untuned = trial.schedule == default_schedule(self.program, self.target)
            self.state.untuned = record if is_untuned else None
        if record.measurement.ok and trial.binary is not None:
            self._keep(record, trial.binary)
        self._emit("search", record)

    def _note(self, record: Record) -> None:
        self.state.records.append(record)
        self.statuses[record.measurement.status] += 1
        best = self.state.best
        if record.measurement.ok and (best is None or record.time_s < best.time_s):
            if best is None or record.time_s < 0.99 * best.time_s:
                self.state.last_gain = len(self.state.records)
            self.state.best = record
        self.state.curve.append(self.state.best.time_s if self.state.best else math.inf)

    def _keep(self, record: Record, binary: Binary) -> None:
        self.state.binaries[record.id] = binary
        if len(self.state.binaries) > _CONTENDERS + 2:
            times = {r.id: r.time_s for r in self.state.records if r.id in self.state.binaries}
            untuned = self.state.untuned.id if self.state.untuned else None
            slowest = max((i for i in times if i != untuned), key=lambda i: times[i])
            del self.state.binaries[slowest]

    # -- when to stop -------------------------------------------------------------------------------------

    def _budget_left(self, planned: int) -> int:
        return 1_000_000 if self.options.trials is None else self.options.trials - planned

    def _elapsed(self) -> float:
        return self.spent_s + (0.0 if self.since is None else time.perf_counter() - self.since)

    def _stop_reason(self, until: float) -> StoppedBy | None:
        if self.should_stop():
            return StoppedBy.INTERRUPTED
        if time.perf_counter() >= until:
            return StoppedBy.SECONDS
        return self.settled

    @property
    def settled(self) -> StoppedBy | None:
        """Why more trials are not worth it, by those that there are."""
        trials = len(self.state.records)
        if trials >= _FAILURES and self.state.best is None:
            return StoppedBy.FAILURES
        patience = max(64, trials // 2)
        if trials - self.state.last_gain >= patience and self.state.best is not None:
            return StoppedBy.PLATEAU
        if trials >= 16 and self._fraction_of_bound() >= _ROOFLINE:
            return StoppedBy.ROOFLINE
        return None

    def _fraction_of_bound(self) -> float:
        """Best speed over what arithmetic and memory allow at most."""
        return 0.0 if self.state.best is None else self.bound_s / self.state.best.time_s

    # -- the end ------------------------------------------------------------------------------------------

    def _finish(self, runner: Runner) -> dict[str, float]:
        """Race the fastest few and the untuned schedule, verify the winner on more inputs, serve it."""
        if self.state.best is None:
            return {}
        self._emit("race")
        self.pipeline.builders.pause()
        by_id = {r.id: r for r in self.state.records}
        contenders = self._contenders(by_id)
        raced = runner.race([(i, b) for i, b in contenders.items()]) if contenders else {}
        if self._is_halted():
            return {}
        self.pipeline.count_run(sum(m.run_s for m in raced.values()))
        times = {str(i): m.time_s for i, m in raced.items() if m.ok}
        while times:
            most = max(len(raced[i].times_s) for i in times)
            final = {i: t for i, t in times.items() if len(raced[i].times_s) == most}
            winner = min(final, key=lambda i: final[i])
            seeds = [self.options.seed + 1] if self.workload.min_bytes < _LARGE_BYTES else []
            checked = runner.verify(contenders[winner], seeds)
            if checked.ok:
                break
            self._emit("race", message=f"{winner} fails on other inputs: {checked.error}")
            del times[winner]
        if times:
            self.store.set_race(final, job_id=self.job_id)
            self.state.best = _with_times(by_id[winner], raced[winner].times_s)
            self.leads = self._leads(winner, {i: raced[i].times_s for i in times})
        baselines = {}
        if self.state.untuned is not None:
            baselines["untuned"] = times.get(self.state.untuned.id, self.state.untuned.time_s)
        if self.should_stop() or self._is_over_budget():
            return baselines
        numpy_s = runner.numpy_time_s()
        if numpy_s is not None and numpy_s > _NUMPY_LEAST_S * len(self.program.stages):
            baselines["numpy"] = numpy_s
        return baselines

    def _leads(self, winner: str, times_s: dict[str, tuple[float, ...]]) -> dict[str, Lead]:
        """What the winner is ahead of: the next best candidate, and the untuned schedule."""
        untuned = self.state.untuned.id if self.state.untuned else None
        others = [i for i in times_s if i not in (winner, untuned)]
        others.sort(key=lambda i: (-len(times_s[i]), median(times_s[i])))
        against = {"next": others[0]} if others else {}
        against |= {"untuned": untuned} if untuned in times_s and untuned != winner else {}
        found = {name: _lead(times_s[winner], times_s[i]) for name, i in against.items()}
        return {name: lead for name, lead in found.items() if lead is not None}

    def _is_over_budget(self) -> bool:
        return time.perf_counter() >= self.deadline

    def _contenders(self, by_id: dict[str, Record]) -> dict[str, Binary]:
        """Binaries of the fastest records and of the untuned one, those of earlier runs built anew."""
        ok = sorted((r for r in by_id.values() if r.measurement.ok), key=lambda r: r.time_s)
        wanted = {r.id: r for r in ok[:_CONTENDERS]}
        untuned, fastest = self.state.untuned, ok[0].time_s
        if untuned is not None and untuned.time_s < _HOPELESS * fastest:
            wanted[untuned.id] = untuned
        out = {i: self.state.binaries[i] for i in wanted if i in self.state.binaries}
        missing = [r for i, r in wanted.items() if i not in out]
        for record in missing:
            schedule = schedule_of(record)
            binary = None if schedule is None else self._rebuild(schedule)
            if binary is not None:
                out[record.id] = binary
        return out

    def _rebuild(self, schedule: Schedule) -> Binary | None:
        """Build one schedule, waiting for it; runs alone."""
        builders, mine = self.pipeline.builders, object()
        builders.submit(mine, program_to_json(self.program), schedule.to_json(), self.target.to_json())
        deadline = time.perf_counter() + self.options.protocol.build_timeout_s + 5
        while time.perf_counter() < deadline and not self._is_halted():
            for built in builders.poll(0.5):
                if built.key is mine:
                    return built.binary
        return None

    def _emit(self, phase: str, record: Record | None = None, message: str = "") -> None:
        self.on_event(
            Event(
                phase,
                len(self.state.records),
                self.options.trials,
                self._elapsed(),
                record,
                self.state.best,
                self.state.untuned.time_s if self.state.untuned else None,
                message,
            )
        )

    def _result(self, baselines: dict[str, float], busy_s: float) -> TuneResult:
        assert self.stopped is not None
        elapsed = self._elapsed()
        pipeline = self.pipeline if self.runner is not None else None
        times = {
            "build": pipeline.build_s if pipeline else 0.0,
            "run": pipeline.run_s if pipeline else 0.0,
            "search": self.search_s,
            "idle": elapsed - busy_s,
        }
        if not baselines and self.state.untuned is not None:
            baselines = {"untuned": self.state.untuned.time_s}
        result = TuneResult(
            self.workload, self.target, len(self.state.records), dict(self.statuses), self.stopped, elapsed,
            self.state.best, baselines, times, self.search.space.disabled if self.began else (), self.leads,
        )  # fmt: skip
        self._emit("done")
        return result


def _lead(winner_s: tuple[float, ...], other_s: tuple[float, ...]) -> Lead | None:
    """By the rounds in which both took part."""
    rounds = min(len(winner_s), len(other_s))
    return lead_of(winner_s[:rounds], other_s[:rounds])


def _with_times(record: Record, times_s: tuple[float, ...]) -> Record:
    """A record with the times of the final race."""
    return replace(record, measurement=replace(record.measurement, times_s=times_s))
