"""Events as they happen, for any number of listeners: the database is asked once for all of them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tunesmith.db import DatabaseLocked, DatabaseUnavailable, Job, JobEvent, JobState, Store, StoreError
from tunesmith.db.codec import time_text
from tunesmith.db.states import TERMINAL

__all__ = ["EventHub"]

log = logging.getLogger(__name__)

T = TypeVar("T")
_PAGE = 500
_BEHIND = 1000  # events that a listener may lag behind; then it is cut off, and comes back for them
_KEEP_ALIVE_S = 15.0
_FAULT_WAIT_S = 1.0
_RETRY = b"retry: 2000\n\n"
_COMMENT = b": still here\n\n"

Item = tuple[int, bytes, bool]
"""Id, what is sent, and whether it is the last of its job."""


@dataclass(eq=False)
class _Listener:
    job_id: str | None
    owner: str | None
    queue: asyncio.Queue[Item | None] = field(default_factory=lambda: asyncio.Queue(_BEHIND))

    def hears(self, event: JobEvent) -> bool:
        return self.job_id in (None, event.job_id) and self.owner in (None, event.owner)

    def give(self, item: Item | None) -> None:
        """None is the end. One that does not keep up is cut off: it asks again after the last it got."""
        if self.queue.full():
            while not self.queue.empty():
                self.queue.get_nowait()
            item = None
        self.queue.put_nowait(item)


class EventHub:
    """``run`` it as a task of the event loop that the streams run in, until it is cancelled or closed.

    While somebody listens it asks the database every ``poll_s`` seconds, otherwise never.
    """

    def __init__(self, store: Store, poll_s: float) -> None:
        self._store = store
        self._poll_s = poll_s
        self._listeners: set[_Listener] = set()
        self._last = 0
        self._wanted = asyncio.Event()
        self._closed = False

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    async def run(self) -> None:
        while not self._closed:
            if not self._listeners:
                self._wanted.clear()
                await self._wanted.wait()
                continue
            try:
                await self._pass_on()
            except StoreError as fault:
                log.warning("events are not read: %s", fault)
                await asyncio.sleep(_FAULT_WAIT_S)
            await asyncio.sleep(self._poll_s)

    def close(self) -> None:
        """Ends all streams; call it in the event loop's thread."""
        self._closed = True
        self._wanted.set()
        for listener in self._listeners:
            listener.give(None)

    async def stream(
        self, after: int | None, *, job: Job | None = None, owner: str | None = None
    ) -> AsyncIterator[bytes]:
        """What happened after the event with id ``after``, then what happens, as server-sent events.

        The stream of a job begins with its first event and ends with its last; that of all jobs begins now
        unless ``after`` is given. ``job`` must have been read before.
        """
        job_id = None if job is None else job.id
        await self._catch_up()
        with self._listening(job_id, owner) as listener:
            yield _RETRY
            last = self._last if after is None and job is None else after or 0
            while True:
                page = await self._page(last, job_id, owner)
                for item in map(_item, page):
                    yield item[1]
                    if job is not None and item[2]:
                        return
                last = page[-1].id if page else last
                if len(page) < _PAGE:
                    break
            if job is not None and job.done:
                yield _state_of(job)  # its events are older than what is kept
                return
            async for last_one, text in self._live(listener, last):
                yield text
                if job is not None and last_one:
                    return

    async def _live(self, listener: _Listener, last: int) -> AsyncIterator[tuple[bool, bytes]]:
        while not self._closed:
            try:
                item = await asyncio.wait_for(listener.queue.get(), _KEEP_ALIVE_S)
            except TimeoutError:
                yield False, _COMMENT
                continue
            if item is None:
                return
            if item[0] > last:
                yield item[2], item[1]

    async def _catch_up(self) -> None:
        """The first listener starts where the table ends: what is older it reads itself."""
        if not self._listeners:
            newest = await self._answered(self._store.events.last_id)
            if newest is not None and not self._listeners:  # nobody else came meanwhile
                self._last = newest

    async def _page(self, last: int, job_id: str | None, owner: str | None) -> list[JobEvent]:
        events = self._store.events
        page = await self._answered(lambda: events.after(last, job_id=job_id, owner=owner, limit=_PAGE))
        return page or []

    async def _answered(self, ask: Callable[[], T]) -> T | None:
        """What the database answers once it can: the stream has begun, so its fault cannot be told any more.
        None when all streams end meanwhile."""
        while not self._closed:
            try:
                return await asyncio.to_thread(ask)
            except (DatabaseLocked, DatabaseUnavailable) as fault:
                log.warning("events are not read: %s", fault)
                await asyncio.sleep(_FAULT_WAIT_S)
        return None

    @contextmanager
    def _listening(self, job_id: str | None, owner: str | None) -> Iterator[_Listener]:
        listener = _Listener(job_id, owner)
        self._listeners.add(listener)
        self._wanted.set()
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _pass_on(self) -> None:
        events = await asyncio.to_thread(self._store.events.after, self._last, limit=_PAGE)
        for event in events:
            item = _item(event)
            for listener in self._listeners:
                if listener.hears(event):
                    listener.give(item)
            self._last = event.id


def _item(event: JobEvent) -> Item:
    told = {"job": event.job_id, "at": time_text(event.at), **event.document}
    ends = event.kind == "state" and JobState(event.document["state"]) in TERMINAL
    return event.id, _text(event.kind, told, event.id), ends


def _state_of(job: Job) -> bytes:
    told = {"job": job.id, "at": time_text(job.updated_at), "state": job.state.value, "version": job.version}
    return _text("state", told | {"error": job.error or None}, None)


def _text(kind: str, told: dict[str, object], event_id: int | None) -> bytes:
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(told, separators=(',', ':'))}\n\n".encode()
