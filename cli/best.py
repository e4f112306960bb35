"""`tunesmith best`: what is known to be fastest for a program on this machine."""

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from tunesmith.cli.commands import WHAT, WHAT_HELP, add_common, positive_int
from tunesmith.cli.errors import NotFoundError
from tunesmith.cli.figures import peak_fraction, threads_text
from tunesmith.cli.lookup import Subject, best_of, near_of, resolve, this_machine
from tunesmith.cli.output import emit_json, format_gflops, format_percent, format_time, line
from tunesmith.db import Best, Match
from tunesmith.records import Target

if TYPE_CHECKING:
    from tunesmith.tuning.near import Estimate

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
The best record of a program for this machine, at once: from the same target if there is one, else from the
most similar. The answer says which. Exit code 3 if nothing is known. With --near, a shape that was never
tuned gets an answer from the nearest ones that were: an estimate, and it says so."""

EXAMPLES = (
    "tunesmith best 'matmul(512,512,512)'",
    "tunesmith best examples/bert_ffn.py --threads 2 --json",
    "tunesmith best 'matmul(500,500,500)' --near",
)

_MATCHES = {
    Match.EXACT: "measured on this very kind of machine",
    Match.SAME_CPU: "measured on the same CPU with other caches or cores",
    Match.SAME_ARCH: "measured elsewhere on this architecture; tuning here will likely do better",
    Match.ANY: "measured somewhere",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar=WHAT, help=WHAT_HELP)
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--near", action="store_true", help="if never tuned, answer from other shapes")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    subject = resolve(args.what, args.db)
    here = this_machine(args.threads)
    try:
        found = best_of(subject, here, args.db)
    except NotFoundError:
        if not args.near:
            raise
        answer = near_of(subject, here, args.db)
        if args.json:
            emit_json(_near_as_json(answer))
        else:
            _print_near(answer, subject)
        return 0
    if args.json:
        emit_json(_as_json(found))
    else:
        _print(found, here)
    return 0


def _as_json(found: Best) -> dict[str, Any]:
    record = found.record
    work = record.workload
    return {
        "match": found.match.value,
        "record": record.id,
        "workload": {"hash": work.hash, "name": work.name, "flops": work.flops, "min_bytes": work.min_bytes},
        "target": record.target.fingerprint,
        "threads": record.target.threads,
        "time_s": found.time_s,
        "raced": found.raced,
        "gflops": found.gflops,
        "peak_fraction": peak_fraction(record.target, work.dtype, found.gflops),
        "schedule": record.schedule,
        "created_at": record.created_at.isoformat(),
    }


def _match_text(found: Best, here: Target) -> str:
    there = found.record.target
    if found.match is Match.SAME_ARCH and there.with_threads(here.threads).fingerprint == here.fingerprint:
        wanted = here.threads
        return f"measured here for {threads_text(there)}; to tune for {wanted}: --threads {wanted}"
    return _MATCHES[found.match]


def _print(found: Best, here: Target) -> None:
    record, target = found.record, found.record.target
    share = format_percent(peak_fraction(target, record.workload.dtype, found.gflops))
    how = "in the final race" if found.raced else "in its trial; not raced against others yet"
    figures = f"{format_time(found.time_s)}, {format_gflops(found.gflops)}, {share} of peak"
    line(f"{record.workload.name}: {figures} ({how})")
    line(f"match {found.match.value}: {_match_text(found, here)} ({target.model}, {threads_text(target)})")
    line(f"record {record.id}, {record.created_at:%Y-%m-%d %H:%M}")
    line(f"next: tunesmith apply {record.id} -o DIR   writes a shared library and its C header")


def _near_as_json(answer: "Estimate") -> dict[str, Any]:
    work, source = answer.workload, answer.source.best
    return {
        "match": "near",
        "record": None,
        "workload": {"hash": work.hash, "name": work.name, "flops": work.flops, "min_bytes": work.min_bytes},
        "target": answer.target.fingerprint,
        "threads": answer.target.threads,
        "estimate": {
            "time_s": answer.time_s,
            "gflops": answer.gflops,
            "peak_fraction": peak_fraction(answer.target, work.dtype, answer.gflops),
            "loss": answer.loss,
            "basis": answer.basis,
            "source": source.record.id,
            "records": [n.best.record.id for n in answer.neighbours],
            "skipped": list(answer.skipped),
        },
        "schedule": answer.schedules[0].to_json(),
    }


def _print_near(answer: "Estimate", subject: Subject) -> None:
    from tunesmith.tuning.neighbours import describe

    share = format_percent(peak_fraction(answer.target, answer.workload.dtype, answer.gflops))
    figures = f"{format_time(answer.time_s)}, {format_gflops(answer.gflops)}, {share} of peak"
    line(f"{answer.workload.name}: about {figures} (an estimate: this shape was never tuned)")
    line(f"match near: perhaps {format_percent(answer.loss)} slower than tuned")
    line(f"from {describe(answer.source)}, record {answer.source.best.record.id}")
    line(f"basis: {answer.basis}")
    for reason in answer.skipped:
        line(reason)
    word = shlex.quote(subject.word)
    line(f"next: tunesmith apply {word} --near -o DIR   builds it, verified; or tunesmith tune {word}")
