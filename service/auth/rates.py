"""How often someone may ask: a token bucket for each."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Buckets"]

_REMEMBERED = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Buckets:
    """``rate`` tokens a second flow into each bucket, which holds ``burst``; a request takes one.

    Remembers the ten thousand last ones; who is forgotten starts with a full bucket. For one thread.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, who: str) -> float:
        """Seconds to wait before asking again; 0: there was a token, and it is taken."""
        now = self._clock()
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = _Bucket(self._burst, now)
            if len(self._buckets) > _REMEMBERED:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(who)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._rate
        bucket.tokens -= 1
        return 0.0
