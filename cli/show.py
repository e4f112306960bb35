"""`tunesmith show`: a program or record at any level, from the text to the machine code."""

import argparse

from tunesmith.cli.commands import WHAT, WHAT_HELP, add_common, positive_int
from tunesmith.cli.errors import NotFoundError
from tunesmith.cli.known import Known, known_of
from tunesmith.cli.lookup import Subject, best_of, resolve, this_machine
from tunesmith.cli.output import emit_json, line, note
from tunesmith.cli.remote import add_remote
from tunesmith.ir import Program
from tunesmith.records import Record, Target

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

LEVELS = ("program", "schedule", "nest", "llvm", "asm", "record")

SUMMARY = """\
Print a program or a record at one level. A program is shown with its best known schedule, or with the untuned
one where nothing is known yet."""

EXAMPLES = (
    "tunesmith show examples/softmax.py",
    "tunesmith show 'matmul(512,512,512)' --level asm",
    "tunesmith show RECORD --level schedule",
    "tunesmith show RECORD --url http://tuner:8700",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar=WHAT, help=WHAT_HELP)
    parser.add_argument(
        "--level",
        choices=LEVELS,
        metavar="LEVEL",
        help=f"{', '.join(LEVELS)} (default: program, of a record record)",
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="default: 1")
    add_remote(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    with known_of(args) as known:
        subject = resolve(args.what, known)
        level = args.level or ("record" if subject.program is None else "program")
        shown, target = _shown(subject, level, args, known)

    from tunesmith.tuning import describe

    text = describe(shown, level, target)
    record = shown if isinstance(shown, Record) else None
    if args.json:
        emit_json({"level": level, "record": record.id if record else None, "text": text})
        return 0
    if record is not None and subject.record is None:
        note(f"record {record.id}")
    elif record is None and level != "program":
        note("nothing is known of this program on this machine yet: this is the untuned schedule")
    line(text.rstrip("\n"))
    return 0


def _shown(
    subject: Subject, level: str, args: argparse.Namespace, known: Known
) -> tuple[Program | Record, Target | None]:
    """What to describe, and for which target: a record's own, or this machine."""
    if subject.record is not None:
        return subject.record, subject.record.target
    if subject.program is not None and level == "program":
        return subject.program, None
    target = this_machine(args.threads)
    try:
        record = best_of(subject, target, known).record
    except NotFoundError:
        if subject.program is None or level == "record":
            raise
        return subject.program, target
    return record, record.target
