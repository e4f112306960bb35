"""Times of several calls, taken in turn so that what the machine does meanwhile meets all of them."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["FEWEST", "Timing", "interleaved"]

FEWEST = 20
SAMPLES = 25
SAMPLE_S = 0.006
PATIENCE_S = 60.0  # for all calls together, beyond which there are the fewest samples


@dataclass(frozen=True)
class Timing:
    """Seconds a call. ``spread`` is the distance of the quartiles over the median."""

    median_s: float
    fastest_s: float
    spread: float
    samples: int

    @staticmethod
    def of(samples: list[float]) -> "Timing":
        low, middle, high = statistics.quantiles(samples, n=4)
        return Timing(middle, min(samples), (high - low) / middle, len(samples))


def interleaved(
    calls: Mapping[str, Callable[[], object]], clock: Callable[[], float] = time.perf_counter
) -> dict[str, Timing]:
    """Samples of every call in turn, a sample being as many calls as take SAMPLE_S; by the wall clock,
    since runtimes compute in threads of their own. ``time.thread_time`` leaves out what other processes take
    of the core, and is for calls that compute in this thread only."""
    counts = {name: _calls_a_sample(call, clock) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for n in range(SAMPLES):
        if n >= FEWEST and time.perf_counter() - began > PATIENCE_S:
            break
        for name, call in calls.items():
            samples[name].append(_sample(call, counts[name], clock))
    return {name: Timing.of(s) for name, s in samples.items()}


def _calls_a_sample(call: Callable[[], object], clock: Callable[[], float]) -> int:
    call()
    count = 1
    while (each := _sample(call, count, clock)) * count < SAMPLE_S / 4:  # one of a microsecond is no measure
        count *= 4
    return max(1, round(SAMPLE_S / each))


def _sample(call: Callable[[], object], count: int, clock: Callable[[], float]) -> float:
    """Seconds a call."""
    began = clock()
    for _ in range(count):
        call()
    return (clock() - began) / count
