"""The worker: one thread that takes queued jobs and tunes them, one at a time.

Tuning compiles and runs in processes of its own, so a thread is enough here, and the machine is
measured on by one job at a time.
"""

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable

from tunesmith.db import LeaseLost, Store, StoreError
from tunesmith.records import Record
from tunesmith.service import logs, owner
from tunesmith.service.run import Run, options_of
from tunesmith.service.settings import Settings

__all__ = ["JobRunner", "options_of"]

log = logging.getLogger(__name__)

_CUT_OFF_S = 5.0


class JobRunner:
    """``start`` and ``stop`` it once. ``wake`` makes it look for work at once, ``notice`` for what is wanted
    of a job; all are thread-safe. ``on_trial`` is told of every trial that is on record."""

    def __init__(
        self, store: Store, settings: Settings, on_trial: Callable[[Record], None] = lambda _: None
    ) -> None:
        self._store = store
        self._settings = settings
        self._on_trial = on_trial
        self._name = owner.new_owner()
        self._claims = itertools.count(1)
        self._holding = ""  # the name under which the present job is claimed
        self._run: Run | None = None
        self._stopping = threading.Event()
        self._work = threading.Event()
        # A daemon, so that a second Ctrl-C ends the process at once; the job is then continued by the next.
        self._thread = threading.Thread(target=self._loop, name="tunesmith-jobs", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def busy(self) -> bool:
        return self._run is not None

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._work.set()

    def notice(self, job_id: str) -> None:
        """Something is wanted of this job, which may be the one that runs here."""
        run = self._run
        if run is not None and run.job.id == job_id:
            run.look()
        self.wake()

    def stop(self) -> None:
        """Lets the running job finish what it is measuring, ``stop_s`` seconds at most, and leaves it queued
        for whoever takes it next."""
        self._stopping.set()
        self._work.set()
        self._thread.join(self._settings.stop_s)
        run = self._run
        if self.alive and run is not None:
            log.warning("job %s does not stop in %g s; it is cut off", run.job.id, self._settings.stop_s)
            run.cut_off()
            self._thread.join(_CUT_OFF_S)
        if self.alive and run is not None:
            self._hand_back(run)

    def _hand_back(self, run: Run) -> None:
        """From under a tuner that hangs: whatever it still writes is refused."""
        try:
            self._store.jobs.release(run.job.fence)
        except StoreError as fault:
            log.warning("job %s is not handed back, and waits for its lease to end: %s", run.job.id, fault)

    def is_dead(self, worker: str) -> bool:
        """Whether a worker is known to do nothing any more: its process is gone, or it is an earlier claim of
        this runner, which has one job at a time."""
        if worker.startswith(f"{self._name}:"):
            return worker != self._holding
        return owner.is_dead(worker)

    def is_alive(self, worker: str) -> bool:
        """Whether it is the one that works here, whatever its lease says."""
        return worker == self._holding

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
            finally:
                self._run, self._holding = None, ""

    def _step(self) -> None:
        """Runs one job, or waits for one."""
        self._work.clear()
        for job in self._store.jobs.requeue_abandoned(self.is_dead, self.is_alive):
            log.info("job %s: abandoned by its worker; now %s", job.id, job.state.value)
        self._holding = f"{self._name}:{next(self._claims)}"
        claimed = self._store.jobs.claim_next(self._holding, lease_s=self._settings.lease_s)
        if claimed is None:
            self._work.wait(self._settings.poll_s)
            return
        with logs.about(job_id=claimed.id), contextlib.suppress(LeaseLost):
            log.info("job %s: %s, attempt %d", claimed.id, claimed.name, claimed.attempt)
            self._run = Run(self._store, self._settings, claimed, self._stopping, self._on_trial)
            self._run.finish()
