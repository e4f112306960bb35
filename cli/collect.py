"""`tunesmith collect`: measure many tasks, for `tunesmith train` to learn from."""

import argparse
import sys
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

from tunesmith.cli.commands import add_common, comma_list, positive_float, positive_int, seed
from tunesmith.cli.database import open_database
from tunesmith.cli.interrupt import interruptible
from tunesmith.cli.output import emit_json, format_time, line, note

if TYPE_CHECKING:
    from tunesmith.tuning.collection import CollectResult, TaskDone

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

DEFAULT_TASKS = 100

SUMMARY = """\
Draw tasks of all families of operators, with shapes as networks have them, and measure candidates of each:
good and bad ones. Every trial is recorded like those of `tune`. The same seed draws the same tasks, and those
that have all their trials on record are passed over."""

EXAMPLES = (
    "tunesmith collect --tasks 200 --db sqlite:///pretraining.db",
    "tunesmith collect --seconds 7200 --without attention,conv2d_capsule",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tasks",
        type=positive_int,
        metavar="N",
        help=f"the first N tasks of the seed (default: {DEFAULT_TASKS}; with --seconds, no limit)",
    )
    parser.add_argument("--seconds", type=positive_float, metavar="S", help="stop after this much time")
    parser.add_argument(
        "--per-task", type=positive_int, default=64, metavar="N", help="candidates; default: 64"
    )
    parser.add_argument("--families", type=comma_list, default=(), metavar="A,B", help="only these")
    parser.add_argument("--without", type=comma_list, default=(), metavar="C,D", help="all but these")
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--seed", type=seed, default=0, help="the same seed draws the same tasks")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress on standard error")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    from tunesmith.tuning import CollectOptions, collect, draw_tasks
    from tunesmith.tuning.tasks import chosen_families

    tasks = draw_tasks(args.seed, chosen_families(args.families, args.without))
    count = args.tasks or (None if args.seconds is not None else DEFAULT_TASKS)
    options = CollectOptions(args.per_task, args.seconds, args.threads, args.seed)
    with open_database(args.db, create=True) as store, interruptible() as interrupt:
        result = collect(
            islice(tasks, count),
            options,
            store,
            on_task=(lambda _: None) if args.quiet else lambda done: _progress(done, count),
            should_stop=interrupt.requested,
        )
    if args.json:
        emit_json(asdict(result) | {"trials_per_s": result.trials / result.elapsed_s})
    else:
        _print(result)
    if result.interrupted:
        note("interrupted; the finished trials are kept, and the same command goes on")
    return 130 if result.interrupted else 0


def _progress(done: "TaskDone", count: int | None) -> None:
    of = f"/{count}" if count else ""
    failed = f", {done.failed} failed" if done.failed else ""
    what = f"{done.trials} trials{failed}, best {format_time(done.best_s)}"
    how = f"in {done.elapsed_s:.1f} s" if done.measured else "on record"
    with suppress(OSError):  # nobody reading must not end the collection
        sys.stderr.write(f"task {done.task.index + 1}{of}  {done.task.operator}: {what}, {how}\n")
        sys.stderr.flush()


def _print(result: "CollectResult") -> None:
    line(f"{result.tasks} tasks measured, {result.complete} complete before")
    if result.trials:
        rate = result.trials / result.elapsed_s
        shares = ", ".join(
            f"{name} {100 * seconds / result.elapsed_s:.0f} %"
            for name, seconds in (
                ("build", result.build_s),
                ("run", result.run_s),
                ("neither", result.elapsed_s - result.busy_s),
            )
        )
        line(f"{result.trials} trials, {result.failed} failed, in {result.elapsed_s:.1f} s")
        line(f"{rate:.1f} trials a second ({shares})")
    line("next: tunesmith train   evaluates a model of all records; with --out FILE writes one")
