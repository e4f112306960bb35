"""`tunesmith tune` for several programs: what is shown on the way, and what came out."""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tunesmith.cli.database import open_database
from tunesmith.cli.errors import UsageError
from tunesmith.cli.figures import peak_fraction
from tunesmith.cli.interrupt import interruptible
from tunesmith.cli.output import (
    emit_json,
    format_percent,
    format_time,
    is_terminal,
    line,
    note,
    table,
)
from tunesmith.cli.progress import describe_best
from tunesmith.cli.reasons import reason_text
from tunesmith.cli.task_list import load_tasks
from tunesmith.records import Record, Status
from tunesmith.tuning.types import ManyEvent, ManyObserver, ManyResult, StoppedBy, WeightedTask

__all__ = ["ManyTally", "many_rows", "result_code", "run_many"]

_FRAME_S = 0.1
_LABEL_WIDTH = 44
_OUTSIDE_ROWS = 6  # of the terminal, that are not tasks


def run_many(args: argparse.Namespace, *, again: Callable[[], str]) -> int:
    """``again`` gives the command that goes on."""
    named = load_tasks(args.source, args.weights, args.tasks)  # bad input leaves no trace

    from tunesmith.cli.tune import options_of
    from tunesmith.tuning import merge_tasks, tune_many

    tasks = merge_tasks(named)
    if args.trials is not None and args.trials < len(tasks):
        raise UsageError(f"--trials {args.trials} is too little for {len(tasks)} programs")
    options, tally = options_of(args, len(tasks)), ManyTally(tasks)
    with (
        open_database(args.db, create=True) as store,
        interruptible() as interrupt,
        _progress(tally, quiet=args.quiet) as view,
    ):
        result = tune_many(tasks, options, store, view, interrupt.requested, strategy=args.strategy)
    if args.json:
        emit_json(result.to_json())
    else:
        _print(result)
    if result.stopped_by is StoppedBy.INTERRUPTED:
        note(f"interrupted; the {result.trials} finished trials are kept. To go on: {again()}")
    return result_code(result)


def result_code(result: ManyResult) -> int:
    """A failure unless every program has a kernel."""
    if result.stopped_by is StoppedBy.INTERRUPTED:
        return 130
    return 0 if all(r.best is not None for r in result.results) else 1


# -- on the way ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Row:
    """What has been told of one task."""

    trials: int = 0
    failed: int = 0
    best: Record | None = None
    untuned_s: float | None = None
    state: str = ""


class ManyTally:
    """Adds up the events of several tasks."""

    def __init__(self, tasks: Sequence[WeightedTask]) -> None:
        self.tasks = tasks
        self.rows = [_Row() for _ in tasks]
        self.last: ManyEvent | None = None

    def add(self, event: ManyEvent) -> bool:
        """Whether a best changed."""
        self.last = event
        row = self.rows[event.index]
        row.state = "" if event.event is None else event.phase
        if event.ended is not None:
            row.state = event.ended.value
        if event.event is None:
            return False
        row.trials, row.untuned_s = event.event.trial, event.event.untuned_s
        if event.event.record is not None:
            row.failed += event.event.record.measurement.status is not Status.OK
        before, row.best = row.best, event.event.best
        return row.best is not None and (before is None or before.id != row.best.id)


def many_rows(tally: ManyTally, most: int) -> list[tuple[str, ...]]:
    """A line a task: weight, trials, best, gain, share of the whole, state. Beyond ``most``, the heaviest."""
    costs = [
        t.weight * (r.best.time_s if r.best else 0.0) for t, r in zip(tally.tasks, tally.rows, strict=True)
    ]
    total = sum(costs)
    shown = sorted(range(len(costs)), key=lambda i: -costs[i])[:most]
    lines: list[tuple[str, ...]] = []
    for i in sorted(shown):
        task, row = tally.tasks[i], tally.rows[i]
        best_s = row.best.time_s if row.best else None
        lines.append(
            (
                _short(task.label),
                f"{task.weight:g}×",
                f"{row.trials}" + (f" ({row.failed} failed)" if row.failed else ""),
                format_time(best_s),
                f"{row.untuned_s / best_s:.2f}× untuned" if row.untuned_s and best_s else "",
                format_percent(costs[i] / total) if best_s else "",
                row.state,
            )
        )
    if len(shown) < len(costs):
        lines.append((f"… and {len(costs) - len(shown)} lighter ones", "", "", "", "", "", ""))
    return lines


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_WIDTH else label[: _LABEL_WIDTH - 1] + "…"


def _whole(event: ManyEvent) -> str:
    """The end-to-end estimate."""
    if event.end_to_end_s is None:
        return "end to end –"
    gain = f", {event.untuned_s / event.end_to_end_s:.2f}× untuned" if event.untuned_s else ""
    return f"end to end {format_time(event.end_to_end_s)}{gain}"


@contextmanager
def _progress(tally: ManyTally, *, quiet: bool) -> Iterator[ManyObserver]:
    if quiet:
        yield lambda event: None
    elif is_terminal(sys.stderr):
        with _live_view(tally) as view:
            yield view
    else:
        yield _PlainView(tally)


class _PlainView:
    """A line for every slice that found something better, for every task that ends and for every message."""

    def __init__(self, tally: ManyTally) -> None:
        self.tally = tally
        self.better = [False] * len(tally.tasks)
        self.ended: set[int] = set()

    def __call__(self, event: ManyEvent) -> None:
        i = event.index
        label, row = _short(self.tally.tasks[i].label), self.tally.rows[i]
        self.better[i] |= self.tally.add(event)
        if event.event is not None and event.event.message:
            self.write(event, f"{label}: {event.event.message}")
        if event.phase == "slice" and self.better[i] and row.best is not None:
            self.better[i] = False
            self.write(event, f"{label}: {describe_best(row.best, row.untuned_s)}; {_whole(event)}")
        if event.ended is not None and i not in self.ended:
            self.ended.add(i)
            self.write(event, f"{label}: {row.trials} trials; {reason_text(event.ended)}")

    def write(self, event: ManyEvent, text: str) -> None:
        of = f"/{event.budget}" if event.budget else ""
        with suppress(OSError):  # an observer must not raise, even with nobody reading
            sys.stderr.write(f"{event.elapsed_s:6.1f} s  {event.trials}{of}  {text}\n")
            sys.stderr.flush()


@contextmanager
def _live_view(tally: ManyTally) -> Iterator[ManyObserver]:
    """Redraws at most ten times a second and leaves the screen clean at the end."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    drawn_at = 0.0

    def panel(event: ManyEvent) -> Group:
        of = f"/{event.budget}" if event.budget else ""
        head = f"{event.trials}{of} trials  {event.elapsed_s:.1f} s  {_whole(event)}"
        grid = Table.grid(padding=(0, 2))
        for row in many_rows(tally, max(3, shutil.get_terminal_size().lines - _OUTSIDE_ROWS)):
            grid.add_row(*map(Text, row))
        return Group(Text(head, style="bold"), grid)

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def view(event: ManyEvent) -> None:
            nonlocal drawn_at
            better = tally.add(event)
            now = time.monotonic()
            if better or now - drawn_at >= _FRAME_S:
                drawn_at = now
                with suppress(OSError):
                    live.update(panel(event), refresh=True)

        yield view


# -- in the end ---------------------------------------------------------------------------------------------


def _print(result: ManyResult) -> None:
    total = result.end_to_end_s
    rows = []
    for task, one in result.pairs:
        best, untuned = one.best, one.baselines.get("untuned")
        rows.append(
            (
                _short(task.label),
                f"{task.weight:g}",
                f"{one.trials}",
                format_time(untuned),
                format_time(best.time_s if best else None),
                f"{untuned / best.time_s:.2f}×" if best and untuned else "–",
                format_percent(peak_fraction(one.target, one.workload.dtype, best.gflops)) if best else "–",
                format_percent(task.weight * best.time_s / total) if best else "–",
                "no candidate works" if best is None and one.trials else one.stopped_by.value,
            )
        )
    heads = ("", "weight", "trials", "untuned", "tuned", "gain", "of peak", "of the whole", "stopped by")
    table(heads, rows, right=(1, 2, 3, 4, 5, 6, 7))
    line()
    gain = f", {result.untuned_s / total:.2f}× untuned" if result.untuned_s and total else ""
    line(f"end to end {format_time(total)}{gain}")
    line(f"{result.trials} trials in {result.elapsed_s:.1f} s; stopped: {reason_text(result.stopped_by)}")
    for task, one in result.pairs:
        if one.best is None:
            note(f"error: {task.label}: {_why_none(one.statuses)}")
    line("next: tunesmith apply SOURCE -o DIR   writes the kernel of one of them and its C header")


def _why_none(statuses: dict[Status, int]) -> str:
    counts = ", ".join(f"{n} {status.value}" for status, n in sorted(statuses.items()) if n)
    return f"no candidate works: {counts}" if counts else "there was no time to try it"
