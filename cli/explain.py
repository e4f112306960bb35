"""`tunesmith explain`: why a schedule takes its time, and what the cost model makes of it."""

import argparse
from typing import TYPE_CHECKING

from tunesmith.cli.commands import WHAT, WHAT_HELP, add_common, positive_int
from tunesmith.cli.database import open_database
from tunesmith.cli.errors import NotFoundError
from tunesmith.cli.known import Database
from tunesmith.cli.lookup import Subject, best_of, resolve, this_machine
from tunesmith.cli.output import emit_json

if TYPE_CHECKING:
    from tunesmith.tuning import Explained

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Where the time of a record goes, stage by stage and term by term of the cost model's formula; what binds, and
what to change; how far it is from the roofline; and what trees learnt from other programs and trials make of
it. Of a program: the best known record, or, where nothing is known yet, what the model would try first."""

EXAMPLES = (
    "tunesmith explain RECORD",
    "tunesmith explain 'matmul(512,512,512)'",
    "tunesmith explain examples/bert_ffn.py --json",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar=WHAT, help=WHAT_HELP)
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="default: 1")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    explained = _explained(resolve(args.what, Database(args.db)), args)
    if args.json:
        emit_json(explained.to_json())
    else:
        from tunesmith.cli.explain_report import print_explained

        print_explained(explained)
    return 0


def _explained(subject: Subject, args: argparse.Namespace) -> "Explained":
    """Of the record that was named, of the best one, or of the model's first choice."""
    from tunesmith.tuning import explain_program, explain_record

    record, time_s = subject.record, None
    if record is None:
        target = this_machine(args.threads)
        try:
            found = best_of(subject, target, Database(args.db))
        except NotFoundError:
            if subject.program is None:
                raise
            return explain_program(subject.program, target)
        record, time_s = found.record, found.time_s
    with open_database(args.db) as store:
        return explain_record(record, store, time_s)
