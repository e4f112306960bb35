"""The worker: one thread that takes queued jobs and tunes them, one at a time.

Tuning compiles and runs in processes of its own, so a thread is enough here, and the machine is
measured on by one job at a time.
"""

import contextlib
import itertools
import logging
import threading

from tunesmith.db import LeaseLost, Store, StoreError
from tunesmith.service import owner
from tunesmith.service.run import Run, options_of
from tunesmith.service.settings import Settings

__all__ = ["JobRunner", "options_of"]

log = logging.getLogger(__name__)


class JobRunner:
    """``start`` and ``stop`` it once. ``wake`` makes it look for work at once, ``notice`` for what is wanted
    of a job; all are thread-safe."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
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
        """Lets the running job finish what it is measuring, and leaves it queued."""
        self._stopping.set()
        self._work.set()
        self._thread.join(self._settings.stop_s)
        if self.alive:
            log.warning(
                "the running job did not stop in %g s; it is left to the next start", self._settings.stop_s
            )

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
        log.info("job %s: %s, attempt %d", claimed.id, claimed.name, claimed.attempt)
        self._run = Run(self._store, self._settings, claimed, self._stopping)
        with contextlib.suppress(LeaseLost):
            self._run.finish()
