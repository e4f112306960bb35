"""Measurements that others made: taken as records only if they are plausible.

What follows from the program, its hashes and counts, is computed here, whatever the upload says. The schedule
must be legal for the program. A time must not be shorter than what the target can do at best; a target that
is known keeps the peaks that it has.
"""

import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tunesmith.costmodel.bound import bound
from tunesmith.ir import Program, TunesmithError, dominant_dtype, needed_flops, program_from_json
from tunesmith.measure import fastest_possible_s
from tunesmith.records import Measurement, Protocol, Record, Target, Workload, utc_now
from tunesmith.schedule import Schedule, lower
from tunesmith.tuning.workload import workload_of

__all__ = ["Implausible", "Programs", "Submission", "accept", "check_peaks", "check_race", "read_program"]

_CACHED = 256
_CLOCK_GHZ = 8.0  # faster than any core; bounds the peaks that a new target may claim
_FMAS = 4  # vector instructions a cycle, of two operations each
_LOADS = 4  # vectors a cycle
_TRANSFER_SLACK = 1.5  # bandwidths are measured less exactly than arithmetic
_AHEAD = dt.timedelta(minutes=10)  # of clocks
_EARLIEST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


class Implausible(TunesmithError):
    """A measurement that cannot be true; the message says why."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A measurement as it was sent, with values of the right types but of any content."""

    id: str
    program: Mapping[str, Any]
    target: Target
    schedule: Mapping[str, Any]
    measurement: Measurement
    protocol: Protocol
    trial: int
    seed: int
    created_at: dt.datetime
    versions: dict[str, str]


def read_program(document: Mapping[str, Any]) -> tuple[Workload, Program]:
    """The workload and its canonical form. Raises ``ProgramError``."""
    return workload_of(program_from_json(dict(document)))


class Programs:
    """Programs that several records share: each is read once, and refused for the same reason again.

    ``check`` raises ``TunesmithError`` for one that is not wanted.
    """

    def __init__(self, check: Callable[[Program], object] = lambda _: None) -> None:
        self._check = check
        self._read: dict[str, tuple[Workload, Program] | TunesmithError] = {}

    def __call__(self, document: Mapping[str, Any]) -> tuple[Workload, Program]:
        """As ``read_program``."""
        text = json.dumps(document, sort_keys=True)
        if text not in self._read:
            if len(self._read) >= _CACHED:
                self._read.clear()
            try:
                workload, form = read_program(document)
                self._check(form)
                self._read[text] = workload, form
            except TunesmithError as fault:
                self._read[text] = fault
        found = self._read[text]
        if isinstance(found, TunesmithError):
            raise found
        return found


def accept(sent: Submission, known_target: Target | None, read: tuple[Workload, Program]) -> Record:
    """The record, with ``read`` the program of it. Raises ``TunesmithError``: implausible or illegal.

    The schedule of a failure may be one that no code could be made for; it only has to be one.
    """
    workload, form = read
    if known_target is None:
        check_peaks(sent.target)
    target = replace(sent.target, peaks=known_target.peaks) if known_target else sent.target
    schedule = Schedule.from_json(dict(sent.schedule))
    _check_measurement(sent.measurement)
    record = Record(
        sent.id, workload, target, schedule.to_json(), schedule.hash, sent.measurement, sent.protocol,
        sent.trial, sent.seed, _instant(sent.created_at), sent.versions,
    )  # fmt: skip
    if record.measurement.ok:
        lower(form, schedule)
        if not record.is_observation:
            _check_time(min(record.measurement.times_s), record, form)
    return record


def check_race(race_s: float, record: Record, form: Program) -> None:
    """Raises ``Implausible`` for a time that a race of such a record cannot have had."""
    if not record.measurement.ok or record.is_observation:
        raise Implausible("only kernels that work here can have raced")
    _check_time(race_s, record, form)


def check_peaks(target: Target) -> None:
    """Those that a target claims which nothing is known of. Raises ``Implausible``."""
    vectors_s = _CLOCK_GHZ * 1e9
    most_f32 = 2 * _FMAS * (target.vector_bytes / 4) * vectors_s / 1e9
    most_gbs = _LOADS * target.vector_bytes * vectors_s / 1e9
    peaks = target.peaks
    if peaks.f32_gflops > most_f32 or peaks.f64_gflops > most_f32:
        raise Implausible(f"no core does more than {most_f32:.0f} GFLOP/s with such vectors")
    if max(peaks.l1_gbs, peaks.l2_gbs, peaks.l3_gbs, peaks.dram_gbs) > most_gbs:
        raise Implausible(f"no core reads more than {most_gbs:.0f} GB/s with such vectors")


def _check_measurement(measurement: Measurement) -> None:
    times = measurement.times_s
    if measurement.ok and not times:
        raise Implausible("a measurement that is ok has times")
    if measurement.ok and measurement.error:
        raise Implausible("a measurement that is ok has no error")
    if measurement.ok and not all(math.isfinite(t) and t > 0 for t in times):
        raise Implausible("times are positive and finite")
    error, tolerance = measurement.max_error, measurement.tolerance
    if measurement.ok and error is not None and tolerance is not None and not error <= tolerance:
        raise Implausible("the error is above the tolerance, so the answer was wrong")


def _check_time(time_s: float, record: Record, form: Program) -> None:
    target, warm = record.target, record.protocol.cache == "warm"
    arithmetic = fastest_possible_s(needed_flops(form), dominant_dtype(form), target.peaks, target.threads)
    roofline = bound(form, target, warm=warm).time_s / _TRANSFER_SLACK
    least = max(arithmetic, roofline)
    if time_s < least:
        raise Implausible(
            f"{time_s:.3g} s a call is faster than the roofline of the target allows ({least:.3g} s)"
        )


def _instant(created_at: dt.datetime) -> dt.datetime:
    if created_at.tzinfo is None:
        raise Implausible("created_at needs a time zone")
    if not _EARLIEST < created_at < utc_now() + _AHEAD:
        raise Implausible("created_at is in the future, or before there was a Tunesmith")
    return created_at.astimezone(dt.UTC)
