"""The worker: one thread that takes queued jobs and tunes them, one at a time.

Tuning compiles and runs in processes of its own, so a thread is enough here, and the machine is
measured on by one job at a time. While a job runs, a second thread renews its lease and watches for
a request to cancel.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tunesmith.db import (
    Conflict,
    DatabaseLocked,
    DatabaseUnavailable,
    Job,
    JobState,
    LeaseLost,
    Store,
    StoreError,
)
from tunesmith.ir import TunesmithError
from tunesmith.records import Protocol
from tunesmith.service.owner import is_dead, new_owner
from tunesmith.service.settings import Settings
from tunesmith.tuning.types import Event, StoppedBy, TuneOptions, TuneResult

__all__ = ["JobRunner", "options_of"]

log = logging.getLogger(__name__)


class JobRunner:
    """``start`` and ``stop`` it once. ``wake`` makes it look for work at once; all are thread-safe."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._owner = new_owner()
        self._stopping = threading.Event()
        self._work = threading.Event()
        # A daemon, so that a second Ctrl-C ends the process at once; the job is then continued by the next.
        self._thread = threading.Thread(target=self._loop, name="tunesmith-jobs", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._work.set()

    def stop(self) -> None:
        """Asks the running job to stop, waits for it, and leaves it queued."""
        self._stopping.set()
        self._work.set()
        self._thread.join(self._settings.stop_s)
        if self.alive:
            log.warning(
                "the running job did not stop in %g s; it is left to the next start", self._settings.stop_s
            )

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except StoreError as fault:
                log.error("the database is out of reach: %s", fault)
                self._stopping.wait(self._settings.poll_s)
            except Exception:  # whatever it was, later jobs must not wait for a dead thread
                log.exception("the worker made a mistake")
                self._stopping.wait(self._settings.poll_s)

    def _step(self) -> None:
        """Runs one job, or waits for one."""
        self._work.clear()
        for job in self._store.jobs.requeue_abandoned(is_dead):
            log.info("job %s: abandoned by its worker; now %s", job.id, job.state.value)
        claimed = self._store.jobs.claim_next(self._owner, lease_s=self._settings.lease_s)
        if claimed is None:
            self._work.wait(self._settings.poll_s)
            return
        log.info("job %s: %s, attempt %d", claimed.id, claimed.name, claimed.attempt)
        run = _Run(self._store, self._settings, self._owner, claimed, self._stopping)
        with contextlib.suppress(LeaseLost):
            run.finish()


@dataclass
class _Run:
    """One attempt at one job."""

    store: Store
    settings: Settings
    owner: str
    job: Job
    stopping: threading.Event
    halt: threading.Event = field(default_factory=threading.Event)  # cancelled, or lost to another worker
    over: threading.Event = field(default_factory=threading.Event)
    reported_at: float = 0.0
    reported_phase: str = ""

    def finish(self) -> None:
        """Tunes, and records how it ended. Raises ``LeaseLost`` when the job is no longer ours.

        A database out of reach is not the job's fault: the error is passed on, the job stays running
        until its lease ends, and is then tried again.
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

    def _tune(self) -> TuneResult:
        tools = self.settings.tools
        return tools.tune(
            tools.program(self.job.source),
            options_of(self.job),
            self.store,
            on_event=self._on_event,
            should_stop=lambda: self.stopping.is_set() or self.halt.is_set(),
            job_id=self.job.id,
        )

    def _settle(self, result: TuneResult) -> None:
        interrupted = result.stopped_by is StoppedBy.INTERRUPTED
        if interrupted and not self.store.jobs.get(self.job.id).cancel_requested:
            self.store.jobs.release(self.job.id, self.owner)
            log.info("job %s: stopped, and queued again", self.job.id)
        elif interrupted:
            self._end(JobState.CANCELLED, result)
        elif result.best is None:
            self._end(JobState.FAILED, result, error=_why_none(result))
        else:
            self._end(JobState.SUCCEEDED, result)

    def _end(self, state: JobState, result: TuneResult | None = None, error: str = "") -> None:
        document, best = (None, None) if result is None else (result.to_json(), result.best)
        self.store.jobs.finish(self.job.id, self.owner, state, result=document, best=best, error=error)
        log.info("job %s: %s", self.job.id, state.value)

    def _on_event(self, event: Event) -> None:
        """Writes progress, twice a second at most. The trial itself is recorded by the tuner."""
        now = time.monotonic()
        if event.phase == self.reported_phase and now - self.reported_at < self.settings.progress_s:
            return
        self.reported_at, self.reported_phase = now, event.phase
        try:
            self.store.jobs.progress(
                self.job.id,
                self.owner,
                phase=event.phase,
                trials_seen=event.trial,
                elapsed_s=self.job.elapsed_s + event.elapsed_s,
                untuned_s=event.untuned_s,
                best=event.best,
            )
        except Conflict:
            self.halt.set()
        except StoreError as fault:
            log.warning("job %s: progress is not recorded: %s", self.job.id, fault)

    @contextlib.contextmanager
    def _leased(self) -> Iterator[None]:
        keeper = threading.Thread(target=self._keep_lease, name="tunesmith-lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            self.over.set()
            keeper.join()

    def _keep_lease(self) -> None:
        """Renews the lease often enough to survive two misses, and looks for a request to cancel."""
        period = min(self.settings.lease_s / 4, self.settings.poll_s)
        while not self.over.wait(period):
            try:
                job = self.store.jobs.heartbeat(self.job.id, self.owner, lease_s=self.settings.lease_s)
            except Conflict:
                log.warning("job %s: now belongs to another worker", self.job.id)
                self.halt.set()
                return
            except StoreError as fault:
                log.warning("job %s: the lease is not renewed: %s", self.job.id, fault)
            else:
                if job.cancel_requested:
                    self.halt.set()


def options_of(job: Job) -> TuneOptions:
    """What is left of the job's budget. A fresh start is one only once: what this job measured counts."""
    given = job.options
    trials, seconds, fresh = given.get("trials"), given.get("seconds"), bool(given.get("fresh"))
    if fresh and trials is not None:
        trials = max(trials - job.n_trials, 1)
    return TuneOptions(
        trials=trials,
        seconds=None if seconds is None else max(seconds - job.elapsed_s, 0.001),
        threads=given.get("threads", 1),
        seed=job.seed,
        fresh=fresh,
        protocol=Protocol(cache=given.get("cache", "warm")),
    )


def _why_none(result: TuneResult) -> str:
    counts = ", ".join(f"{n} {status.value}" for status, n in sorted(result.statuses.items()) if n)
    return f"no candidate works: {counts or 'none was tried'}"
