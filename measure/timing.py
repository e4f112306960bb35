"""How long a call takes: batches far above the timer's resolution, and no more of them than are useful."""

import contextlib
import fcntl
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tunesmith.ir.dtypes import DType
from tunesmith.records import Peaks, Protocol, lead_of

__all__ = ["Sampler", "contenders", "fastest_possible_s", "kernel_clock", "time_calls", "timing_lock"]

_BUDGET_S = 1.0  # for all samples, once there are the fewest
_FEWEST = 3
_DEAR_S = 0.1
_CUT_AFTER = 2
_ROOFLINE_SLACK = 1.3
_MOST_ROUNDS = 4  # of a race, times what is asked for, when the fastest are close


Clock = Callable[[], int]
"""Nanoseconds since some moment."""


def kernel_clock(protocol: Protocol, parallel: bool) -> Clock:
    """For batches of a kernel without threads the processor time of this thread: on a shared machine
    others take turns on the core, and their turns are not the kernel's. The wall clock for all else."""
    exact = time.get_clock_info("thread_time").resolution <= 1e-6
    return (
        time.thread_time_ns if exact and not parallel and protocol.cache == "warm" else time.perf_counter_ns
    )


def fastest_possible_s(flops: int, dtype: DType, peaks: Peaks, threads: int) -> float:
    """A time that no correct kernel beats.

    ``flops`` are those that are needed, without multiplications by padding; the slack is for a peak that was
    measured at a lower clock. Bytes give no bound, since operands may stay in a cache.
    """
    return flops / (_ROOFLINE_SLACK * peaks.gflops(dtype) * 1e9 * threads)


class Sampler:
    """Takes samples of one kernel. ``run(n)`` calls it n times; ``flush`` empties the caches.

    Calls are batched until a batch lasts ``protocol.sample_s``; with cold caches each call is a sample.
    """

    def __init__(
        self,
        run: Callable[[int], object],
        protocol: Protocol,
        flush: Callable[[], object] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if protocol.cache not in ("warm", "cold"):
            raise ValueError(f"cache mode {protocol.cache!r}: warm or cold")
        self._run = run
        self._flush = flush if protocol.cache == "cold" else None
        self._protocol = protocol
        self._clock = clock or time.perf_counter_ns
        self.calls = 1
        self.estimate_s = math.inf

    def _batch(self, n: int) -> float:
        start = self._clock()
        self._run(n)
        return (self._clock() - start) * 1e-9

    def calibrate(self) -> None:
        """Warm up, and find how many calls make a sample."""
        spent = took = self._batch(1)
        if self._flush is not None:
            self.estimate_s = took
            return
        wanted, warmup = self._protocol.sample_s, self._protocol.warmup_s
        while took < wanted or spent < warmup:
            if took < wanted:
                growth = 1.1 * wanted / max(took, 1e-9)
                self.calls = math.ceil(self.calls * min(max(growth, 1.1), 20.0))
            took = self._batch(self.calls)
            spent += took
        self.estimate_s = took / self.calls

    def sample(self) -> float:
        """Seconds a call, from one sample."""
        if self._flush is not None:
            self._flush()
        return self._batch(self.calls) / self.calls


def time_calls(
    run: Callable[[int], object],
    protocol: Protocol,
    best_s: float | None = None,
    flush: Callable[[], object] | None = None,
    clock: Clock | None = None,
) -> tuple[float, ...]:
    """Seconds a call, one value a sample.

    There are ``protocol.samples`` of them, but fewer once it is clear that the kernel is not the best: two
    when both are slower than ``best_s`` by more than ``protocol.cut_off``, three when all are by half of it,
    and so on; and as few as three when they take longer than a second.
    """
    sampler = Sampler(run, protocol, flush, clock)
    sampler.calibrate()
    best_s = math.inf if best_s is None else best_s
    margin = protocol.cut_off - 1.0
    # The last batch of the calibration is as good as a sample; it only counts when samples are dear.
    dear = sampler.estimate_s > min(best_s * protocol.cut_off, _DEAR_S)
    times = [sampler.estimate_s] if dear else []
    start = time.perf_counter()
    while len(times) < protocol.samples:
        times.append(sampler.sample())
        more = len(times) - _CUT_AFTER
        if more >= 0 and min(times) > best_s * (1.0 + margin * 0.5**more):
            break
        if len(times) >= _FEWEST and time.perf_counter() - start > _BUDGET_S:
            break
    return tuple(times)


def contenders(times: Sequence[Sequence[float]], rounds: int) -> list[int]:
    """Who is sampled in the next round: all, for so many rounds; then those that may still be the fastest,
    until that is known or so many more rounds are over that it does not matter."""
    done = max(map(len, times))
    going = [i for i, t in enumerate(times) if len(t) == done]
    if done < rounds:
        return going
    if done >= _MOST_ROUNDS * rounds:
        return []
    first = min(going, key=lambda i: statistics.median(times[i]))
    others = [i for i in going if i != first and not _is_behind(times[first], times[i])]
    return [first, *others] if others else []


def _is_behind(first: Sequence[float], other: Sequence[float]) -> bool:
    lead = lead_of(first, other)
    return lead is not None and lead.is_sure


def _lock_file() -> int | None:
    """The file that all tuners of this machine lock; made by whoever comes first."""
    path = Path(tempfile.gettempdir()) / "tunesmith-timing.lock"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    for extra in (0, os.O_CREAT):  # systems may refuse O_CREAT on another user's file in /tmp
        with contextlib.suppress(OSError):
            handle = os.open(path, flags | extra, 0o666)
            if extra:
                with contextlib.suppress(OSError):
                    os.fchmod(handle, 0o666)
            return handle
    return None


@contextlib.contextmanager
def timing_lock(wait_s: float) -> Iterator[bool]:
    """Hold the machine for timing. Waits for others at most ``wait_s``, then goes on without (False)."""
    handle = _lock_file()
    if handle is None:
        yield False
        return
    try:
        yield _acquire(handle, time.monotonic() + wait_s)
    finally:
        os.close(handle)


def _acquire(handle: int, deadline: float) -> bool:
    while True:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
