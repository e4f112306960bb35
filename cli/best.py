"""`tunesmith best`: what is known to be fastest for a program on this machine."""

import argparse
import shlex
from typing import Any

from tunesmith.cli.commands import WHAT, WHAT_HELP, add_common, positive_int
from tunesmith.cli.errors import NotFoundError
from tunesmith.cli.figures import peak_fraction, threads_text
from tunesmith.cli.known import Known, Suggestion, known_of
from tunesmith.cli.lookup import Subject, best_of, near_of, resolve, this_machine
from tunesmith.cli.output import emit_json, format_gflops, format_percent, format_time, line
from tunesmith.cli.remote import add_remote
from tunesmith.db import Best, Match
from tunesmith.records import Target

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
The best record of a program for this machine, at once: from the same target if there is one, else from the
most similar. The answer says which. Exit code 3 if nothing is known. With --near, a shape that was never
tuned gets an answer from the nearest ones that were: an estimate, and it says so."""

EXAMPLES = (
    "tunesmith best 'matmul(512,512,512)'",
    "tunesmith best examples/bert_ffn.py --threads 2 --json",
    "tunesmith best 'matmul(500,500,500)' --near",
    "tunesmith best 'matmul(512,512,512)' --url http://tuner:8700",
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
    add_remote(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    with known_of(args) as known:
        return _run(args, known)


def _run(args: argparse.Namespace, known: Known) -> int:
    subject = resolve(args.what, known)
    here = this_machine(args.threads)
    try:
        found = best_of(subject, here, known)
    except NotFoundError:
        if not args.near:
            raise
        answer = near_of(subject, here, known)
        if args.json:
            emit_json(_near_as_json(answer))
        else:
            _print_near(answer, subject, known)
        return 0
    if args.json:
        emit_json(_as_json(found))
    else:
        _print(found, here, known, subject)
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


def _print(found: Best, here: Target, known: Known, subject: Subject) -> None:
    record, target = found.record, found.record.target
    share = format_percent(peak_fraction(target, record.workload.dtype, found.gflops))
    how = "in the final race" if found.raced else "in its trial; not raced against others yet"
    figures = f"{format_time(found.time_s)}, {format_gflops(found.gflops)}, {share} of peak"
    line(f"{record.workload.name}: {figures} ({how})")
    line(f"match {found.match.value}: {_match_text(found, here)} ({target.model}, {threads_text(target)})")
    line(f"record {record.id}, {record.created_at:%Y-%m-%d %H:%M}")
    command = _apply(known, *_name(found, here, subject))
    line(f"next: {command} -o DIR   writes a shared library and its C header")


def _name(found: Best, here: Target, subject: Subject) -> list[str]:
    """How to ask for the kernel on this machine: a record that is named is built for its own target."""
    if found.match is Match.EXACT or subject.program is None:
        return [found.record.id]
    return [subject.word] + (["--threads", str(here.threads)] if here.threads > 1 else [])


def _apply(known: Known, *words: str) -> str:
    return shlex.join(["tunesmith", "apply", *words, *known.words])


def _near_as_json(answer: Suggestion) -> dict[str, Any]:
    work = answer.workload
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
            "source": answer.source,
            "records": answer.records,
            "skipped": answer.skipped,
        },
        "schedule": answer.schedules[0].to_json(),
    }


def _print_near(answer: Suggestion, subject: Subject, known: Known) -> None:
    share = format_percent(peak_fraction(answer.target, answer.workload.dtype, answer.gflops))
    figures = f"{format_time(answer.time_s)}, {format_gflops(answer.gflops)}, {share} of peak"
    line(f"{answer.workload.name}: about {figures} (an estimate: this shape was never tuned)")
    line(f"match near: perhaps {format_percent(answer.loss)} slower than tuned")
    line(f"from {answer.origin}, record {answer.source}")
    line(f"basis: {answer.basis}")
    for reason in answer.skipped:
        line(reason)
    tune = shlex.join(["tunesmith", "tune", subject.word, *known.words])
    line(f"next: {_apply(known, subject.word, '--near')} -o DIR   builds it, verified; or {tune}")
