"""What this process counts for Prometheus. Every label has few values, and clients choose none of them."""

from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tunesmith.records import Record, Status

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts since the process started. Thread-safe."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "tunesmith_http_requests",
            "Requests by route, method and status; 499: the client left before the answer.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._latency = Histogram(
            "tunesmith_http_request_seconds",
            "Time until the answer to a request begins.",
            ("route", "method"),
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._trials = Counter(
            "tunesmith_trials", "Trials that this process measured.", ("status",), registry=self._registry
        )
        for status in Status:
            self._trials.labels(status.value)

    def count_request(self, route: str, method: str, status: int) -> None:
        self._requests.labels(route, _known(method), str(status)).inc()

    def count_latency(self, route: str, method: str, seconds: float) -> None:
        self._latency.labels(route, _known(method)).observe(seconds)

    def count_trial(self, record: Record) -> None:
        self._trials.labels(record.measurement.status.value).inc()

    def text(self, more: Iterable[Metric]) -> bytes:
        """The page in the text format, with ``more`` that was looked at for it."""
        looked_at = CollectorRegistry()
        looked_at.register(_Given(more))
        return generate_latest(self._registry) + generate_latest(looked_at)


def _known(method: str) -> str:
    return method if method in _METHODS else "other"


class _Given(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics
