"""The sweeper: puts right what dead workers left behind, however busy the living are."""

import datetime as dt
import logging
import threading
import time

from tunesmith.db import Store, StoreError
from tunesmith.service import logs, owner
from tunesmith.service.jobs import JobRunner
from tunesmith.service.settings import Settings

__all__ = ["Sweeper"]

log = logging.getLogger(__name__)

_PRUNE_EVERY_S = 3600.0


class Sweeper:
    """A thread that takes jobs from workers that are gone, and removes old events. ``start`` and ``stop`` it
    once. Several, of several servers on one database, do not disturb each other."""

    def __init__(self, store: Store, settings: Settings, runner: JobRunner | None) -> None:
        self._store = store
        self._settings = settings
        self._runner = runner
        self._stopping = threading.Event()
        self._pruned_at = -_PRUNE_EVERY_S
        self.sweeps = self.faults = self.taken_back = 0  # so far
        self._thread = threading.Thread(target=self._loop, name="tunesmith-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(5.0)

    def sweep(self) -> None:
        is_dead = owner.is_dead if self._runner is None else self._runner.is_dead
        is_alive = (lambda worker: False) if self._runner is None else self._runner.is_alive
        for job in self._store.jobs.requeue_abandoned(is_dead, is_alive):
            with logs.about(job_id=job.id):
                log.info("job %s: abandoned by its worker; now %s", job.id, job.state.value)
            self.taken_back += 1
            if self._runner is not None:
                self._runner.wake()
        if time.monotonic() - self._pruned_at >= _PRUNE_EVERY_S:
            self._pruned_at = time.monotonic()
            self._store.events.prune(dt.timedelta(days=self._settings.event_days))

    def _loop(self) -> None:
        while True:
            try:
                self.sweep()
                self.sweeps += 1
            except StoreError as fault:
                self.faults += 1
                log.warning("nothing is swept: %s", fault)
            except Exception:
                self.faults += 1
                log.exception("the sweeper made a mistake")
            if self._stopping.wait(self._settings.sweep_s):
                return
