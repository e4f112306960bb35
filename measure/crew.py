"""Workers that share a queue of jobs and survive what the jobs do to them."""

import os
import selectors
import time
import weakref
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from tunesmith.ir.errors import TunesmithError
from tunesmith.measure.guard import GUARDED
from tunesmith.measure.messages import Message
from tunesmith.measure.process import Ending, WorkerProcess, WorkerSpec, signal_name

__all__ = ["Crew", "Failure", "Job", "Outcome", "WorkerError"]

_STARTS = 3
_DEPTH = 3
_JOBS_OF_A_WORKER = 2000
_GROWTH_BYTES = 1 << 30
_SIGKILL = 9


class WorkerError(TunesmithError):
    """Workers cannot be started; the message holds their last words."""


@dataclass(slots=True)
class Job:
    key: Hashable
    message: Message
    timeout_s: float
    kills: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """The worker died of the job: timed out, or ended with a signal or exit code, at a stage."""

    timed_out: bool
    signal: int
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The worker's answer, or the failure that came instead."""

    key: Hashable
    answer: Message | None
    failure: Failure | None
    seconds: float


@dataclass(slots=True)
class _Seat:
    """A worker and the jobs sent to it, oldest first; ``since`` is when it came to the first. It is
    ``guarded`` once the system ends it with its parent."""

    process: WorkerProcess
    jobs: deque[Job] = field(default_factory=deque)
    since: float = 0.0
    stage: str = ""
    guarded: bool = False
    ready: bool = False
    served: int = 0
    resident_bytes: int = 0
    worn: bool = False
    hurt: bool = False


def _end_all(seats: list[_Seat], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner is not to end its workers
        return
    for seat in seats:
        seat.process.kill()
    for seat in seats:
        seat.process.end()
    seats.clear()


class Crew:
    """``n`` workers of one kind. Not thread-safe: one thread submits and polls.

    The workers start at once and are sent a few jobs ahead, so that they have work between two polls. A
    job whose worker dies has failed; the jobs behind it go to the next worker. A job whose worker is
    killed from outside is tried once more. Workers are replaced when they die, overrun a job's
    timeout, have grown, or say that a job hurt them.
    """

    def __init__(self, spec: WorkerSpec, n: int, depth: int = _DEPTH) -> None:
        self._spec = spec
        self._n = n
        self._depth = depth
        self._waiting: deque[Job] = deque()
        self._done: list[Outcome] = []
        self._failed_starts = 0
        self._selector = selectors.DefaultSelector()
        self._seats: list[_Seat] = []
        self._end = weakref.finalize(self, _end_all, self._seats, os.getpid())
        self._closed = False
        self._held_at: float | None = None
        self.resume()

    def submit(self, job: Job) -> None:
        if self._closed:
            raise ValueError("closed")
        self.resume()
        self._waiting.append(job)
        self._dispatch()

    def hold(self) -> None:
        """Have the workers stop where they are; the time until ``release`` counts for nothing.

        One that has only just started is stopped by ``poll``, once it is guarded: stopped before, it would
        stay for ever if its parent was killed.
        """
        if self._held_at is None:
            self._held_at = time.monotonic()
            for seat in self._seats:
                if seat.guarded:
                    seat.process.stop()

    def release(self) -> None:
        if self._held_at is not None:
            lost, self._held_at = time.monotonic() - self._held_at, None
            for seat in self._seats:
                seat.since += lost
                seat.process.started_at += lost
                seat.process.go_on()

    def suspend(self) -> None:
        """End all workers until ``resume`` or the next job; what is pending is dropped."""
        self._waiting.clear()
        self._done.clear()
        for seat in list(self._seats):
            self._remove(seat)

    def resume(self) -> None:
        """Start the workers that are missing."""
        while len(self._seats) < self._n:
            self._start()

    @property
    def pending(self) -> int:
        """Jobs whose outcome has not been polled."""
        return len(self._waiting) + len(self._done) + sum(len(s.jobs) for s in self._seats)

    @property
    def is_ready(self) -> bool:
        """Whether all workers have started."""
        return all(s.ready for s in self._seats)

    @property
    def has_outcomes(self) -> bool:
        return bool(self._done)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(s.process.pid for s in self._seats)

    @property
    def selector(self) -> selectors.BaseSelector:
        return self._selector

    def poll(self, timeout_s: float = 0.0) -> list[Outcome]:
        """Outcomes so far; while jobs are pending, waits for
        the first at most ``timeout_s``. WorkerError if no worker starts."""
        deadline = time.monotonic() + (timeout_s if self.pending else 0.0)
        while True:
            self._dispatch()
            wait = 0.0 if self._done else min(deadline, self._next_alarm()) - time.monotonic()
            for key, _ in self._selector.select(max(0.0, wait)):
                key.data()
            self._check_timeouts()
            if self._done or time.monotonic() >= deadline:
                self._dispatch()
                done, self._done = self._done, []
                return done

    def close(self) -> None:
        """End all workers; what is pending is dropped."""
        self._closed = True
        self._waiting.clear()
        self._selector.close()
        self._end()

    def _start(self) -> None:
        seat = _Seat(WorkerProcess(self._spec))
        self._seats.append(seat)
        process = seat.process

        def on_output() -> None:
            self._on_output(seat)

        def on_errors() -> None:
            if not process.drain_errors():
                self._selector.unregister(process.stderr)

        self._selector.register(process.stdout, selectors.EVENT_READ, on_output)
        self._selector.register(process.stderr, selectors.EVENT_READ, on_errors)
        self._watch_input(seat)

    def _watch_input(self, seat: _Seat) -> None:
        """Have the rest of a message written as soon as the pipe takes more."""
        process = seat.process
        if process.has_unsent and process.stdin not in self._selector.get_map():

            def on_room() -> None:
                process.flush()
                if not process.has_unsent:
                    self._selector.unregister(process.stdin)

            self._selector.register(process.stdin, selectors.EVENT_WRITE, on_room)

    def _dispatch(self) -> None:
        while self._waiting:
            open_seats = [s for s in self._seats if len(s.jobs) < self._depth and not s.worn]
            if not open_seats:
                return
            seat = min(open_seats, key=lambda s: len(s.jobs))
            if not seat.jobs:
                seat.since = time.monotonic()
            job = self._waiting.popleft()
            seat.jobs.append(job)
            seat.process.send(replace(job.message, header={**job.message.header, "timeout_s": job.timeout_s}))
            self._watch_input(seat)

    def _on_output(self, seat: _Seat) -> None:
        messages, ended = seat.process.receive()
        for message in messages:
            if not seat.hurt:
                self._on_message(seat, message)
        if ended or seat.hurt:
            self._replace(seat, self._remove(seat, grace_s=1.0 if ended else 0.0), timed_out=False)
        elif seat.worn and not seat.jobs:
            self._remove(seat)
            self._start()

    def _on_message(self, seat: _Seat, message: Message) -> None:
        now = time.monotonic()
        if message.kind == GUARDED:
            seat.guarded = True
            if self._held_at is not None:
                seat.process.stop()
        elif message.kind == "ready":
            seat.ready, seat.since = True, now
            seat.resident_bytes = message.header["rss"]
            self._failed_starts = 0
        elif message.kind == "stage":
            seat.stage = message.header["stage"]
        elif seat.jobs:
            job = seat.jobs.popleft()
            self._done.append(Outcome(job.key, message, None, now - seat.since))
            seat.since, seat.stage = now, ""
            seat.served += 1
            grown = message.header["rss"] - seat.resident_bytes
            seat.hurt = message.header.get("hurt", False)
            seat.worn = seat.served >= _JOBS_OF_A_WORKER or grown > _GROWTH_BYTES

    def _remove(self, seat: _Seat, grace_s: float = 0.0) -> Ending:
        registered = self._selector.get_map()
        process = seat.process
        for fd in (process.stdin, process.stdout, process.stderr):
            if fd in registered:
                self._selector.unregister(fd)
        self._seats.remove(seat)
        return process.end(grace_s)

    def _replace(self, seat: _Seat, ending: Ending, timed_out: bool) -> None:
        """Settle the job the worker died of, pass the others on, and start another worker."""
        if not seat.ready:
            self._failed_starts += 1
            if ending.code or self._failed_starts >= _STARTS:
                raise WorkerError(f"{self._spec.role} workers cannot start: {ending}")
        elif seat.jobs and not seat.hurt:
            self._settle(seat, ending, timed_out)
        self._waiting.extendleft(reversed(seat.jobs))
        self._start()

    def _settle(self, seat: _Seat, ending: Ending, timed_out: bool) -> None:
        job = seat.jobs.popleft()
        if ending.signal == _SIGKILL and not timed_out and not job.kills:
            job.kills += 1
            seat.jobs.appendleft(job)
            return
        where = f" while {seat.stage}" if seat.stage else ""
        text = f"no answer after {job.timeout_s:g} s{where}" if timed_out else _death(ending, where)
        failure = Failure(timed_out, ending.signal, text)
        self._done.append(Outcome(job.key, None, failure, time.monotonic() - seat.since))

    def _alarm(self, seat: _Seat) -> float:
        """When the worker is overdue."""
        if self._held_at is not None:
            return float("inf")
        if not seat.ready:
            return seat.process.started_at + self._spec.start_s
        return seat.since + seat.jobs[0].timeout_s if seat.jobs else float("inf")

    def _next_alarm(self) -> float:
        return min((self._alarm(s) for s in self._seats), default=float("inf"))

    def _check_timeouts(self) -> None:
        now = time.monotonic()
        for seat in [s for s in self._seats if self._alarm(s) <= now]:
            self._replace(seat, self._remove(seat), timed_out=True)


def _death(ending: Ending, where: str) -> str:
    what = signal_name(ending.signal) if ending.signal else f"exit code {ending.code}"
    if ending.signal == _SIGKILL:
        what += " from outside, perhaps for want of memory,"
    return f"{what}{where}" + (f": {ending.words}" if ending.words else "")
