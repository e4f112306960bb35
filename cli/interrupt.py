"""Ctrl-C: the first asks the search to stop, the second stops at once."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["Interrupt", "interruptible"]


class Interrupt:
    """``requested()`` is what the tuner asks between trials."""

    def __init__(self) -> None:
        self._requested = False

    def requested(self) -> bool:
        return self._requested

    def handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._requested:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a third one ends the process whatever it does
            raise KeyboardInterrupt
        self._requested = True
        with suppress(OSError):
            sys.stderr.write("\nstopping after the running trials; Ctrl-C again stops at once\n")


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    interrupt = Interrupt()
    previous = signal.signal(signal.SIGINT, interrupt.handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)
