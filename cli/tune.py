"""`tunesmith tune`: search for the fastest verified kernel, show it on the way, say what came out."""

import argparse
import shlex

from tunesmith.cli.commands import SOURCE_HELP, add_common, positive_float, positive_int, seed
from tunesmith.cli.database import open_database
from tunesmith.cli.interrupt import interruptible
from tunesmith.cli.output import emit_json
from tunesmith.cli.progress import Tally, progress
from tunesmith.cli.sources import load_program
from tunesmith.cli.tune_report import print_result, result_code
from tunesmith.records import Protocol
from tunesmith.tuning.types import TuneOptions

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

DEFAULT_TRIALS = 64

SUMMARY = """\
Search for the fastest kernel of a program on this machine. Every candidate is compiled, run in a process of
its own, checked against the reference and recorded. What is recorded already counts and is not run again."""

EXAMPLES = (
    "tunesmith tune 'matmul(512,512,512)'",
    "tunesmith tune examples/bert_ffn.py --trials 128 --threads 2",
    "tunesmith tune layers.py::attention --seconds 60 --json",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument(
        "--trials",
        type=positive_int,
        metavar="N",
        help=f"how many candidates to measure (default: {DEFAULT_TRIALS}; with --seconds, no limit)",
    )
    parser.add_argument("--seconds", type=positive_float, metavar="S", help="stop after this much time")
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--seed", type=seed, default=0, help="the same seed proposes the same candidates")
    parser.add_argument("--fresh", action="store_true", help="ignore what is recorded and start over")
    parser.add_argument("--cold", action="store_true", help="flush the caches before each timed call")
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress on standard error")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    program = load_program(args.source)  # before anything is opened: bad input leaves no trace

    from tunesmith.tuning import tune

    tally = Tally()
    options = _options(args)
    with (
        open_database(args.db, create=True) as store,
        interruptible() as interrupt,
        progress(tally, quiet=args.quiet) as view,
    ):
        result = tune(program, options, store, on_event=view, should_stop=interrupt.requested, job_id=None)
    if args.json:
        emit_json(result.to_json())
    else:
        print_result(result, tally, again=_again(args))
    return result_code(result)


def _options(args: argparse.Namespace) -> TuneOptions:
    unlimited = args.trials is None and args.seconds is not None
    return TuneOptions(
        trials=None if unlimited else args.trials or DEFAULT_TRIALS,
        seconds=args.seconds,
        threads=args.threads,
        seed=args.seed,
        fresh=args.fresh,
        protocol=Protocol(cache="cold" if args.cold else "warm"),
    )


def _again(args: argparse.Namespace) -> str:
    """The command that goes on where this one stopped; without ``--fresh``, which would start over."""
    words = ["tunesmith", "tune", args.source]
    for flag, value, default in (
        ("--trials", args.trials, None),
        ("--seconds", args.seconds, None),
        ("--threads", args.threads, 1),
        ("--seed", args.seed, 0),
        ("--db", args.db, None),
    ):
        if value != default:
            words += [flag, str(value)]
    return shlex.join(words + (["--cold"] if args.cold else []))
