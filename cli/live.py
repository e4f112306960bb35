"""The live panel of a search on a terminal: counter, best, untuned, the tuning curve and what failed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tunesmith.cli.figures import peak_fraction
from tunesmith.cli.output import format_gflops, format_percent, format_time, sparkline
from tunesmith.cli.progress import Tally
from tunesmith.records import Status
from tunesmith.tuning.types import Event, Observer

__all__ = ["live_view", "render"]

_FRAME_S = 0.1
_CURVE_WIDTH = 60


@contextmanager
def live_view(tally: Tally) -> Iterator[Observer]:
    """Redraws at most ten times a second and leaves the screen clean at the end."""
    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _LiveView(tally, live)


class _LiveView:
    def __init__(self, tally: Tally, live: Live) -> None:
        self.tally = tally
        self.live = live
        self.drawn_at = 0.0
        self.message = ""

    def __call__(self, event: Event) -> None:
        better = self.tally.add(event)
        self.message = event.message or self.message
        now = time.monotonic()
        if better or event.record is None or now - self.drawn_at >= _FRAME_S:
            self.drawn_at = now
            with suppress(OSError):  # an observer must not raise, even when the terminal is gone
                self.live.update(render(self.tally, self.message), refresh=True)


def render(tally: Tally, message: str) -> Group:
    event = tally.last
    if event is None:
        return Group()
    parts: list[RenderableType] = [_header(event), _times(event)]
    if any(tally.curve):
        parts.append(Text.assemble("curve    ", (sparkline(tally.curve, _CURVE_WIDTH), "green")))
    parts.append(_outcomes(tally))
    if message:
        parts.append(Text(message, style="dim"))
    return Group(*parts)


def _header(event: Event) -> Table:
    counter = f"{event.trial}/{event.trials} trials" if event.trials else f"{event.trial} trials"
    row = Table.grid(padding=(0, 2))
    name = event.best.workload.name if event.best else event.phase
    bar = ProgressBar(total=event.trials, completed=event.trial, width=30) if event.trials else Text("")
    row.add_row(Text(name, style="bold"), bar, Text(counter), Text(f"{event.elapsed_s:.1f} s"))
    return row


def _times(event: Event) -> Table:
    rows = Table.grid(padding=(0, 2))
    best, untuned_s = event.best, event.untuned_s
    if best is not None:
        gain = f"{untuned_s / best.time_s:.2f}× untuned" if untuned_s else ""
        rows.add_row(
            "best   ",
            Text(format_time(best.time_s), style="bold green"),
            format_gflops(best.gflops),
            f"{format_percent(peak_fraction(best.target, best.workload.dtype, best.gflops))} of peak",
            gain,
        )
    if untuned_s is not None:
        rate = format_gflops(best.workload.flops / untuned_s / 1e9) if best is not None else ""
        rows.add_row("untuned", format_time(untuned_s), rate, "", "")
    return rows


def _outcomes(tally: Tally) -> Text:
    text = Text("trials   ")
    for status, count in tally.statuses.most_common():
        text.append(f"{count} {status.value}", style="" if status is Status.OK else "yellow")
        text.append("  ")
    return text
