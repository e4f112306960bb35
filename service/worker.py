"""A worker: takes jobs from the database and tunes them, without HTTP."""

import logging
import math
import os
import signal
import time
from pathlib import Path
from types import FrameType

from tunesmith.db import open_store
from tunesmith.service import logs
from tunesmith.service.jobs import JobRunner
from tunesmith.service.notify import READY, STOPPING, WATCHDOG, WATCHDOG_EVERY_S, notify
from tunesmith.service.settings import Settings
from tunesmith.service.sweeper import Sweeper

__all__ = ["work"]

log = logging.getLogger(__name__)


_LOOK_S = 0.2


def work(settings: Settings) -> int:
    """Works until SIGTERM or Ctrl-C; then the running job finishes what it measures and is left to others.

    Returns the exit code: 0, or 1 when the worker has stopped by itself. Raises ``StoreError`` when the
    database cannot be used at the start; one that goes away later is waited for. A second signal does not
    wait. Call it in the main thread.
    """
    logs.configure(settings.log_level, settings.log_format)
    asked = _Asked()
    with open_store(settings.url) as store:
        runner = JobRunner(store, settings)
        sweeper = Sweeper(store, settings, runner)
        sweeper.start()
        runner.start()
        log.info("working on jobs of %s, Ctrl-C to stop", store.url)
        notify(READY)
        alive = _watch(runner, asked, settings.alive_file)
        notify(STOPPING)
        runner.stop()
        sweeper.stop()
    if not alive:
        log.error("the worker has stopped by itself")
        return 1
    log.info("stopped")
    return 0


class _Asked:
    """``to_stop`` after the first signal; the second ends the process."""

    def __init__(self) -> None:
        self.to_stop = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.to_stop:
            os._exit(128 + number)
        self.to_stop = True


def _watch(runner: JobRunner, asked: _Asked, alive_file: str) -> bool:
    """Until it is asked to stop; returns whether the runner still worked then."""
    told_at = -math.inf
    while runner.alive and not asked.to_stop:
        if time.monotonic() - told_at >= WATCHDOG_EVERY_S:
            told_at = time.monotonic()
            notify(WATCHDOG)
            if alive_file:
                _touch(Path(alive_file))
        time.sleep(_LOOK_S)
    return runner.alive


def _touch(file: Path) -> None:
    try:
        file.touch()
    except OSError as fault:
        log.warning("%s cannot be touched: %s", file, fault.strerror)
