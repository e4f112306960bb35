"""What a person sees while a search runs, always on standard error.

``Tally`` adds up the events; ``PlainView`` writes a line when something worth knowing happens; ``live``
redraws a panel on a terminal. Views draw only when an event arrives, in the tuner's thread: no timer competes
with the measuring.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tunesmith.cli.figures import peak_fraction
from tunesmith.cli.output import format_gflops, format_percent, format_time, is_terminal
from tunesmith.records import Record, Status
from tunesmith.tuning.types import Event, Observer

__all__ = ["PlainView", "SilentView", "Tally", "describe_best", "progress"]


@dataclass(slots=True)
class Tally:
    """``curve``: the best GFLOP/s after every trial; ``errors``: the first line of each failure's text."""

    statuses: Counter[Status] = field(default_factory=Counter)
    errors: Counter[tuple[Status, str]] = field(default_factory=Counter)
    curve: list[float] = field(default_factory=list)
    last: Event | None = None

    def add(self, event: Event) -> bool:
        """Whether the best changed."""
        before = self.last.best if self.last else None
        self.last = event
        if event.record is not None:
            measurement = event.record.measurement
            self.statuses[measurement.status] += 1
            if not measurement.ok:
                text = measurement.error.strip().split("\n", 1)[0] or "no text"
                self.errors[measurement.status, text] += 1
            self.curve.append(event.best.gflops if event.best else 0.0)
        return event.best is not None and (before is None or before.id != event.best.id)


def describe_best(best: Record, untuned_s: float | None) -> str:
    share = format_percent(peak_fraction(best.target, best.workload.dtype, best.gflops))
    text = f"{format_time(best.time_s)}  {format_gflops(best.gflops)}  {share} of peak"
    return f"{text}  {untuned_s / best.time_s:.2f}× untuned" if untuned_s else text


class SilentView:
    """Adds up and shows nothing."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def __call__(self, event: Event) -> None:
        self.tally.add(event)


class PlainView:
    """A line for the untuned time, for every better kernel and for every message."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.shown_untuned = False

    def __call__(self, event: Event) -> None:
        better = self.tally.add(event)
        if event.message:
            self.write(event, event.message)
        if event.untuned_s is not None and not self.shown_untuned:
            self.shown_untuned = True
            self.write(event, f"untuned: {format_time(event.untuned_s)}")
        if better and event.best is not None and event.best.time_s < (event.untuned_s or float("inf")):
            of = f"/{event.trials}" if event.trials else ""
            self.write(event, f"trial {event.trial}{of}: {describe_best(event.best, event.untuned_s)}")

    def write(self, event: Event, text: str) -> None:
        with suppress(OSError):  # an observer must not raise, even with nobody reading
            sys.stderr.write(f"{event.elapsed_s:6.1f} s  {text}\n")
            sys.stderr.flush()


@contextmanager
def progress(tally: Tally, *, quiet: bool) -> Iterator[Observer]:
    """An observer that fills ``tally`` and shows as much as the place allows."""
    if quiet:
        yield SilentView(tally)
    elif is_terminal(sys.stderr):
        from tunesmith.cli.live import live_view

        with live_view(tally) as view:
            yield view
    else:
        yield PlainView(tally)
