"""The database as a job's tuner sees it: behind a fence, and waited for when it is out of reach."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from tunesmith.db import Best, DatabaseLocked, DatabaseUnavailable, Fence, Neighbour, Store
from tunesmith.records import Record, Target, Workload
from tunesmith.service import logs

__all__ = ["JobStore", "patiently"]

log = logging.getLogger(__name__)

T = TypeVar("T")
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0


def patiently(act: Callable[[], T], over: threading.Event) -> T:
    """Repeats ``act`` until the database answers, with growing pauses, or until ``over``: then its fault is
    raised. What it does must be the same when done twice."""
    wait_s, told = _FIRST_WAIT_S, False
    while True:
        try:
            result = act()
        except (DatabaseLocked, DatabaseUnavailable) as fault:
            if not told:
                log.warning("waiting for the database: %s", fault)
                told = True
            if over.wait(wait_s):
                raise
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        else:
            if told:
                log.info("the database is back")
            return result


class JobStore:
    """Of ``Store``, what tuning needs. Writes for the job raise ``LeaseLost`` once it is another worker's.

    A trial that is measured while the database is away is kept until it is back: ids are made here, and
    adding a record twice changes nothing. Only when ``over`` is set is it given up. ``on_trial`` is told of
    those that are on record.
    """

    def __init__(
        self,
        store: Store,
        fence: Fence,
        over: threading.Event,
        on_trial: Callable[[Record], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._fence = fence
        self._over = over
        self._on_trial = on_trial

    def add_workload(self, workload: Workload) -> None:
        patiently(lambda: self._store.add_workload(workload), self._over)

    def add_target(self, target: Target) -> None:
        patiently(lambda: self._store.add_target(target), self._over)

    def add(self, record: Record) -> bool:
        with logs.about(record_id=record.id):
            is_new = patiently(lambda: self._store.add(record, fence=self._fence), self._over)
            log.debug("trial %d: %s", record.trial, record.measurement.status.value)
        self._on_trial(record)
        return is_new

    def history(self, workload_hash: str, fingerprint: str) -> list[Record]:
        return patiently(lambda: self._store.history(workload_hash, fingerprint), self._over)

    def neighbours(
        self, workload: Workload, target: Target, limit: int = 8, *, observed: bool = False
    ) -> list[Neighbour]:
        return patiently(
            lambda: self._store.neighbours(workload, target, limit, observed=observed), self._over
        )

    def best(self, workload_hash: str, target: Target, *, cache: str) -> Best | None:
        return patiently(lambda: self._store.best(workload_hash, target, cache=cache), self._over)

    def set_race(self, times_s: Mapping[str, float], *, job_id: str | None = None) -> None:
        def act() -> None:
            self._store.set_race(times_s, job_id=job_id, fence=self._fence)

        patiently(act, self._over)
