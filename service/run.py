"""One attempt at one job: tuned in the runner's thread, while a second thread keeps the lease and looks for
what users want of it."""

import contextlib
import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tunesmith.db import (
    Conflict,
    DatabaseLocked,
    DatabaseUnavailable,
    Job,
    JobState,
    LeaseLost,
    Store,
    StoreError,
    TaskState,
)
from tunesmith.ir import TunesmithError
from tunesmith.records import Protocol, Record
from tunesmith.service.patience import JobStore, patiently
from tunesmith.service.settings import Settings
from tunesmith.tuning.types import (
    Event,
    Halt,
    ManyEvent,
    ManyResult,
    StoppedBy,
    TuneOptions,
    TuneResult,
    WeightedTask,
)

__all__ = ["Run", "options_of"]

log = logging.getLogger(__name__)

T = TypeVar("T")
_HALTS = {JobState.PAUSED: Halt.PAUSE, JobState.STOPPED: Halt.STOP, JobState.CANCELLED: Halt.NOW}
_ANNOUNCED_EVERY = 4  # progress reports: listeners also hear of every new phase and every new best


@dataclass
class Run:
    """``stopping``: the service ends, and the job is left for the next one."""

    store: Store
    settings: Settings
    job: Job
    stopping: threading.Event
    on_trial: Callable[[Record], None] = lambda _: None
    wanted: JobState | None = None
    lost: bool = False  # to another worker
    hurried: bool = False
    attention: threading.Event = field(default_factory=threading.Event)
    over: bool = False
    reported_at: float = 0.0
    reported_phase: str = ""
    reports: int = 0
    task: int | None = None  # of several, the one that runs

    def __post_init__(self) -> None:
        self.wanted = self.job.wanted

    def look(self) -> None:
        """Has the job looked at now, since something may be wanted of it."""
        self.attention.set()

    def cut_off(self) -> None:
        """Has what runs killed, since there is no time to wait for it."""
        self.hurried = True

    def finish(self) -> None:
        """Tunes, and records how it ended. Raises ``LeaseLost`` when the job is no longer ours.

        A database out of reach is waited for. Only if the service ends meanwhile is its fault passed on;
        the job then stays running until somebody finds its worker dead.
        """
        try:
            with self._leased():
                result = self._tune()
        except (DatabaseLocked, DatabaseUnavailable, LeaseLost):
            raise
        except TunesmithError as fault:
            self._end(JobState.FAILED, error=str(fault))
        except Exception:
            log.exception("job %s failed", self.job.id)
            self._end(JobState.FAILED, error="the tuner made a mistake; the server's log says more")
        else:
            self._settle(result)

    def halt(self) -> Halt:
        """How the tuner is to end now, if at all."""
        if self.lost or self.hurried:
            return Halt.NOW
        asked = Halt.NO if self.wanted is None else _HALTS[self.wanted]
        return max(asked, Halt.PAUSE) if self.stopping.is_set() else asked

    def _tune(self) -> TuneResult | ManyResult:
        tools, source = self.settings.tools, self.job.source
        store = JobStore(self.store, self.job.fence, self.stopping, self.on_trial)
        options = options_of(self.job)
        if "tasks" not in source:
            return tools.tune(
                tools.program(source), options, store, self._on_event, self.halt, job_id=self.job.id
            )
        tasks = [WeightedTask(tools.program(t), t["weight"], t.get("name") or "") for t in source["tasks"]]
        return tools.tune_many(tasks, options, store, self._on_many, self.halt, job_id=self.job.id)

    # -- the end ------------------------------------------------------------------------------------------

    def _settle(self, result: TuneResult | ManyResult) -> None:
        if result.stopped_by is StoppedBy.INTERRUPTED:
            wanted = self._patiently(lambda: self.store.jobs.get(self.job.id)).wanted
            if wanted in (JobState.STOPPED, JobState.CANCELLED):
                self._end(wanted, result)
            else:
                left = self._patiently(lambda: self.store.jobs.release(self.job.fence))
                log.info("job %s: interrupted, now %s", self.job.id, left.state.value)
        elif not _bests(result):
            self._end(JobState.FAILED, result, error=_why_none(result))
        else:
            self._end(JobState.SUCCEEDED, result)

    def _end(self, state: JobState, result: TuneResult | ManyResult | None = None, error: str = "") -> None:
        given: dict[str, Any] = {"error": error}
        if result is not None:
            given |= {"result": result.to_json(), "bests": _bests(result)}
        if isinstance(result, TuneResult):
            given["best"] = result.best
        self._patiently(lambda: self.store.jobs.finish(self.job.fence, state, **given))
        log.info("job %s: %s", self.job.id, state.value)

    def _patiently(self, act: Callable[[], T]) -> T:
        return patiently(act, self.stopping)

    # -- on the way ---------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        self._report(event.phase, event.trial, event.elapsed_s, event.untuned_s, best=event.best)

    def _on_many(self, event: ManyEvent) -> None:
        with self._told():
            if event.ended is not None:
                failed = event.ended is StoppedBy.FAILURES
                self.store.jobs.set_task(
                    self.job.fence, event.index, TaskState.FAILED if failed else TaskState.DONE
                )
                self.task = None
            elif event.event is not None and event.index != self.task:
                self.store.jobs.set_task(self.job.fence, event.index, TaskState.RUNNING)
                self.task = event.index
        self._report(
            event.phase, event.trials, event.elapsed_s, event.untuned_s, end_to_end_s=event.end_to_end_s
        )

    def _report(
        self, phase: str, trials: int, elapsed_s: float, untuned_s: float | None, **more: Any
    ) -> None:
        """Writes progress, twice a second at most. The trial itself is recorded by the tuner."""
        now = time.monotonic()
        is_news = phase != self.reported_phase
        if not is_news and now - self.reported_at < self.settings.progress_s:
            return
        self.reported_at, self.reported_phase = now, phase
        self.reports += 1
        with self._told():
            self.store.jobs.progress(
                self.job.fence,
                phase=phase,
                trials_seen=trials,
                elapsed_s=self.job.elapsed_s + elapsed_s,
                untuned_s=untuned_s,
                announce=is_news or self.reports % _ANNOUNCED_EVERY == 0,
                **more,
            )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What is only told may be lost with the database, but not the job itself."""
        try:
            yield
        except Conflict:
            self.lost = True
        except StoreError as fault:
            log.warning("job %s: progress is not recorded: %s", self.job.id, fault)

    # -- the lease ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _leased(self) -> Iterator[None]:
        run = contextvars.copy_context().run  # a new thread begins without the ids that log lines carry
        keeper = threading.Thread(target=run, args=(self._keep_lease,), name="tunesmith-lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            self.over = True
            self.attention.set()
            keeper.join()

    def _keep_lease(self) -> None:
        """Renews the lease often enough to survive two misses, and looks for what is wanted."""
        period = min(self.settings.lease_s / 4, self.settings.poll_s)
        while True:
            self.attention.wait(period)
            self.attention.clear()
            if self.over:
                return
            try:
                self.wanted = self.store.jobs.heartbeat(self.job.fence, lease_s=self.settings.lease_s).wanted
            except Conflict:
                log.warning("job %s: now belongs to another worker", self.job.id)
                self.lost = True
                return
            except StoreError as fault:
                log.warning("job %s: the lease is not renewed: %s", self.job.id, fault)


def options_of(job: Job) -> TuneOptions:
    """What is left of the job's budget: trials are counted by the tuner, which finds those on record."""
    given = job.options
    seconds = given.get("seconds")
    return TuneOptions(
        trials=given.get("trials"),
        seconds=None if seconds is None else max(seconds - job.elapsed_s, 0.001),
        threads=given.get("threads", 1),
        seed=job.seed,
        fresh=bool(given.get("fresh")),
        protocol=Protocol(cache=given.get("cache", "warm")),
    )


def _bests(result: TuneResult | ManyResult) -> list[Record]:
    results = result.results if isinstance(result, ManyResult) else (result,)
    return [r.best for r in results if r.best is not None]


def _why_none(result: TuneResult | ManyResult) -> str:
    results = result.results if isinstance(result, ManyResult) else (result,)
    statuses = sorted({status for r in results for status in r.statuses})
    sums = [(status, sum(r.statuses.get(status, 0) for r in results)) for status in statuses]
    counts = ", ".join(f"{n} {status.value}" for status, n in sums if n)
    return f"no candidate works: {counts or 'none was tried'}"
