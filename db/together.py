"""Writing together: what threads ask for while a transaction runs is the next one, all of it.

Each caller returns when what he asked for is committed, as if he had a transaction of his own; but there is
one wait for the lock and the disk for all of them (group commit: J. Gray and A. Reuter, Transaction
Processing, section 9.4.7). Those whose writing has just ended are mostly about to write again, so that a
transaction waits for them, a few milliseconds at most: without that, one would write alone and the others
after him, in turn.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Together"]

A = TypeVar("A")
R = TypeVar("R")
_AT_ONCE = 256
_PATIENCE_S = 0.005


@dataclass(eq=False)
class _Entry(Generic[A, R]):
    """``ready`` when it is done, or when its thread is the one to write next."""

    item: A
    ready: threading.Event = field(default_factory=threading.Event)
    done: bool = False
    result: R | None = None
    error: Exception | None = None


class Together(Generic[A, R]):
    """``write`` commits items in one transaction and returns the result of each, or raises and has changed
    nothing; then each item is tried alone, so that nobody gets the fault of another."""

    def __init__(self, write: Callable[[Sequence[A]], Sequence[R]]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._all_came = threading.Condition(self._lock)
        self._usual = 1  # how many have written and waited at the same time of late
        self._patience_s = 0.0
        self._waiting: deque[_Entry[A, R]] = deque()
        self._is_led = False

    def __call__(self, item: A) -> R:
        """The result of an item, once it is committed. Raises what its writing raises."""
        entry: _Entry[A, R] = _Entry(item)
        with self._lock:
            self._waiting.append(entry)
            if len(self._waiting) == self._usual:
                self._all_came.notify()
            leads, self._is_led = not self._is_led, True
        try:
            if not leads:
                entry.ready.wait()
            if not entry.done:
                self._lead()
        except BaseException:  # interrupted: the others go on without this one
            self._leave(entry, leads)
            raise
        if entry.error is not None:
            raise entry.error
        return entry.result  # type: ignore[return-value]

    def _lead(self) -> None:
        """Write what waits, one's own first, and leave the lead to whoever came meanwhile."""
        with self._lock:
            self._all_came.wait_for(lambda: len(self._waiting) >= self._usual, self._patience_s)
            batch = [self._waiting[i] for i in range(min(_AT_ONCE, len(self._waiting)))]
        began = time.monotonic()
        self._commit(batch)
        with self._lock:
            self._patience_s = min(_PATIENCE_S, time.monotonic() - began)
            self._usual = min(_AT_ONCE, len(self._waiting))
            self._waiting = deque(e for e in self._waiting if not e.done)
            self._hand_over()
        for entry in batch:
            entry.ready.set()

    def _hand_over(self) -> None:
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].ready.set()

    def _leave(self, entry: _Entry[A, R], leads: bool) -> None:
        with self._lock:
            if entry in self._waiting:
                self._waiting.remove(entry)
            if leads or entry.ready.is_set():
                for other in [e for e in self._waiting if e.done]:
                    self._waiting.remove(other)
                    other.ready.set()
                self._hand_over()

    def _commit(self, batch: Sequence[_Entry[A, R]]) -> None:
        try:
            results = self._write([entry.item for entry in batch])
        except Exception as fault:
            if len(batch) > 1:
                for entry in batch:
                    self._commit([entry])
                return
            batch[0].error, batch[0].done = fault, True
        else:
            for entry, result in zip(batch, results, strict=True):
                entry.result, entry.done = result, True
