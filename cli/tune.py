"""`tunesmith tune`: search for the fastest verified kernel, show it on the way, say what came out.

Several programs are tuned under one budget: ``cli.many`` shows and tells those.
"""

import argparse
import shlex

from tunesmith.cli.commands import SOURCE_HELP, add_common, positive_float, positive_int, seed, weights
from tunesmith.cli.database import open_database
from tunesmith.cli.errors import UsageError
from tunesmith.cli.interrupt import interruptible
from tunesmith.cli.output import emit_json, note
from tunesmith.cli.progress import Tally, progress
from tunesmith.cli.remote import add_remote, client_of, follow, print_job, service_url, watch_command
from tunesmith.cli.sources import load_program
from tunesmith.cli.task_list import load_tasks
from tunesmith.cli.tune_report import print_result, result_code
from tunesmith.records import Protocol
from tunesmith.tuning.types import TuneOptions

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "options_of", "run"]

DEFAULT_TRIALS = 64

SUMMARY = """\
Search for the fastest kernel of a program on this machine. Every candidate is compiled, run in a process of
its own, checked against the reference and recorded. What is recorded already counts and is not run again.

Several programs share one budget: the next trials go where the sum of weight × time is expected to fall
most. The weight says how often a model calls the program. FILE is TOML, one [[task]] with source and weight
for each, or JSON, a list of such objects; paths in it are relative to it."""

EXAMPLES = (
    "tunesmith tune 'matmul(512,512,512)'",
    "tunesmith tune examples/bert_ffn.py --trials 128 --threads 2",
    "tunesmith tune layers.py::attention --seconds 60 --json",
    "tunesmith tune 'matmul(128,768,768)' 'softmax(1536,128)' --weights 48,12",
    "tunesmith tune --tasks resnet50.toml --seconds 1800",
    "tunesmith tune 'matmul(512,512,512)' --url http://tuner:8700 --detach",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", nargs="*", help=SOURCE_HELP)
    parser.add_argument("--weights", type=weights, metavar="W,W", help="of the SOURCEs, in their order")
    parser.add_argument("--tasks", metavar="FILE", help="programs and their weights: FILE.toml or FILE.json")
    parser.add_argument(
        "--trials",
        type=positive_int,
        metavar="N",
        help=f"candidates to measure (default: {DEFAULT_TRIALS} a program; with --seconds, no limit)",
    )
    parser.add_argument("--seconds", type=positive_float, metavar="S", help="stop after this much time")
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--seed", type=seed, default=0, help="the same seed proposes the same candidates")
    parser.add_argument("--fresh", action="store_true", help="ignore what is recorded and start over")
    parser.add_argument("--cold", action="store_true", help="flush the caches before each timed call")
    parser.add_argument(
        "--strategy",
        choices=("gradient", "round-robin"),
        default="gradient",
        help="which program gets the next trials: the most promising, or each in turn; default: gradient",
    )
    parser.add_argument(
        "--detach", action="store_true", help="with a service: submit the job, and do not wait for it"
    )
    add_remote(parser)
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress on standard error")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    if not args.source and args.tasks is None:
        raise UsageError("required: SOURCE, or --tasks FILE")
    if args.detach or service_url(args) is not None:
        return _run_there(args)
    if len(args.source) == 1 and args.weights is None and args.tasks is None:
        return _run_one(args)
    from tunesmith.cli.many import run_many

    return run_many(args, again=lambda: _again(args))


def _run_one(args: argparse.Namespace) -> int:
    program = load_program(args.source[0])  # before anything is opened: bad input leaves no trace

    from tunesmith.tuning import tune

    tally = Tally()
    options = options_of(args)
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


def _run_there(args: argparse.Namespace) -> int:
    """On a service; programs are read here, so that what is wrong with them is told with file and line."""
    tasks = [(t.program, t.weight) for t in load_tasks(args.source, args.weights, args.tasks)]
    given = {"trials": args.trials, "seconds": args.seconds, "threads": args.threads, "seed": args.seed}
    options = {k: v for k, v in given.items() if v is not None} | {"fresh": args.fresh}
    options["cache"] = "cold" if args.cold else "warm"
    with client_of(args) as client:
        one = len(tasks) == 1
        job = client.submit(tasks[0][0], **options) if one else client.submit_many(tasks, **options)
        if not args.detach:
            return follow(client, job["id"], args, quiet=args.quiet, kernel=_kernel(args))
    if args.json:
        emit_json(job)
    else:
        print_job(job)
        note(f"to watch it: {watch_command(job['id'], args)}")
    return 0


def _kernel(args: argparse.Namespace) -> list[str]:
    """How to name what comes out to `tunesmith apply`, if it is one kernel that can be named."""
    if len(args.source) != 1 or args.tasks is not None or args.source == ["-"]:
        return []
    return [*args.source, *(["--threads", str(args.threads)] if args.threads > 1 else [])]


def options_of(args: argparse.Namespace, programs: int = 1) -> TuneOptions:
    """What the words say, for so many programs together."""
    unlimited = args.trials is None and args.seconds is not None
    return TuneOptions(
        trials=None if unlimited else args.trials or DEFAULT_TRIALS * programs,
        seconds=args.seconds,
        threads=args.threads,
        seed=args.seed,
        fresh=args.fresh,
        protocol=Protocol(cache="cold" if args.cold else "warm"),
    )


def _again(args: argparse.Namespace) -> str:
    """The command that goes on where this one stopped; without ``--fresh``, which would start over."""
    words = ["tunesmith", "tune", *args.source]
    for flag, value, default in (
        ("--weights", args.weights and ",".join(f"{w:g}" for w in args.weights), None),
        ("--tasks", args.tasks, None),
        ("--trials", args.trials, None),
        ("--seconds", args.seconds, None),
        ("--threads", args.threads, 1),
        ("--seed", args.seed, 0),
        ("--strategy", args.strategy, "gradient"),
        ("--db", args.db, None),
    ):
        if value != default:
            words += [flag, str(value)]
    return shlex.join(words + (["--cold"] if args.cold else []))
