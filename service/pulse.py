"""Whether the database answers, asked by many, with an end to their waiting."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tunesmith.db import DatabaseUnavailable, Store, StoreError
from tunesmith.db.figures import Figures

__all__ = ["Pulse", "Reading"]

T = TypeVar("T")
_PATIENCE_S = 3.0  # those who watch give up themselves after some seconds
_FRESH_S = 5.0
_SHARE = 0.05  # of the time, at most, goes into looking


@dataclass(frozen=True, slots=True)
class Reading:
    """``figures`` is None while the database does not answer; ``latency_s`` is of a minimal question."""

    latency_s: float
    figures: Figures | None


class _Shared(Generic[T]):
    """One call of ``act`` at a time, in a thread of its own, whose result goes to all who wait for it. A call
    that hangs takes no other thread with it, nor the end of the process."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._running: asyncio.Future[T] | None = None

    async def result(self) -> T:
        """Raises what ``act`` does, and ``TimeoutError`` when it takes too long."""
        if self._running is None or self._running.done():
            self._running = self._start()
        return await asyncio.wait_for(asyncio.shield(self._running), _PATIENCE_S)

    def _start(self) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda done: done.exception())  # there may be nobody left who waits

        def run() -> None:
            try:
                result = self._act()
            except Exception as fault:
                tell(future.set_exception, fault)
            else:
                tell(future.set_result, result)

        def tell(how: Callable[..., None], what: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(how, what)

        threading.Thread(target=run, name="tunesmith-pulse", daemon=True).start()
        return future


class Pulse:
    """Use it from one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pings = _Shared(lambda: store.ping())
        self._readings = _Shared(self._read)
        self._last = Reading(0.0, None)
        self._stale_at = 0.0

    async def ping(self) -> None:
        """Raises ``StoreError`` unless the database answers soon."""
        try:
            await self._pings.result()
        except TimeoutError:
            raise DatabaseUnavailable(f"the database has not answered for {_PATIENCE_S:g} s") from None

    async def reading(self) -> Reading:
        """Some seconds old, or more where looking takes long."""
        if time.monotonic() >= self._stale_at:
            began = time.monotonic()
            try:
                self._last = await self._readings.result()
            except (StoreError, TimeoutError):
                self._last = Reading(0.0, None)
            now = time.monotonic()
            self._stale_at = now + (1.0 if self._last.figures is None else _FRESH_S)
            self._stale_at = max(self._stale_at, now + (now - began) / _SHARE)
        return self._last

    def _read(self) -> Reading:
        began = time.monotonic()
        self._store.ping()
        return Reading(time.monotonic() - began, self._store.figures())
