"""What is looked at when the page for Prometheus is asked for: queue, leases, streams, database, build."""

import platform
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

import tunesmith
from tunesmith.db import JobState
from tunesmith.db.figures import Figures
from tunesmith.db.revisions import HEAD
from tunesmith.records import utc_now
from tunesmith.service.context import Context
from tunesmith.service.pulse import Reading

__all__ = ["gauges"]


def gauges(here: Context, reading: Reading) -> Iterator[Metric]:
    """Those of the database's content are missing while it does not answer."""
    yield _build(here)
    yield _gauge("event_streams", "Streams of events that are open.", here.events.listeners)
    if here.runner is not None:
        yield _gauge("tuner_up", "Whether jobs are taken and tuned here.", here.runner.alive)
        yield _gauge("tuner_busy", "Whether a job is tuned here now.", here.runner.busy)
    yield from _swept(here)
    yield _gauge("database_up", "Whether the database answers.", reading.figures is not None)
    if reading.figures is not None:
        yield _gauge("database_latency_seconds", "Of a minimal question.", reading.latency_s)
        yield from _stored(reading.figures)


def _build(here: Context) -> Metric:
    names = {
        "version": tunesmith.__version__,
        "python": platform.python_version(),
        "schema": HEAD,
        "database": here.store.url.partition(":")[0].partition("+")[0],
    }
    build = GaugeMetricFamily("tunesmith_build_info", "What runs here.", labels=list(names))
    build.add_metric(list(names.values()), 1)
    return build


def _swept(here: Context) -> Iterator[Metric]:
    sweeper = here.sweeper
    yield _counter("sweeps", "Looks for jobs that were left behind.", sweeper.sweeps)
    yield _counter("sweep_faults", "Looks that failed.", sweeper.faults)
    yield _counter("jobs_taken_back", "Jobs taken from workers that were gone.", sweeper.taken_back)


def _stored(figures: Figures) -> Iterator[Metric]:
    waiting_s = 0.0
    if figures.queued_since is not None:
        waiting_s = max((utc_now() - figures.queued_since).total_seconds(), 0.0)
    queued = figures.jobs[JobState.QUEUED]
    good = figures.records - figures.failed
    yield _labelled("jobs", "Jobs by state.", "state", {s.value: n for s, n in figures.jobs.items()})
    yield _gauge("queue_length", "Jobs that wait for a worker.", queued)
    yield _gauge("queue_oldest_seconds", "Since the oldest of them was submitted.", waiting_s)
    yield _gauge("leases", "Jobs held by workers.", figures.jobs[JobState.RUNNING])
    yield _gauge("leases_expired", "Of these, under a lease that ran out.", figures.expired)
    yield _gauge("workloads", "Tensor computations known.", figures.workloads)
    yield _labelled("records", "Trials on record.", "outcome", {"ok": good, "failed": figures.failed})


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tunesmith_{name}", what, value=float(value))


def _counter(name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(f"tunesmith_{name}", what, value=float(value))


def _labelled(name: str, what: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"tunesmith_{name}", what, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
