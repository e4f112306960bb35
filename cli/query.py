"""`tunesmith query`: what the database holds."""

import argparse
import shlex
from dataclasses import asdict
from typing import Any

from tunesmith.cli.commands import SOURCE_HELP, add_common, positive_int
from tunesmith.cli.errors import UsageError
from tunesmith.cli.known import Known, RecordQuery, known_of
from tunesmith.cli.lookup import resolve
from tunesmith.cli.output import emit_json, format_count, format_time, line, note, table
from tunesmith.cli.remote import add_remote
from tunesmith.db import Order, Page, RecordSummary, WorkloadSummary
from tunesmith.records import Status

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
List records that fit the filters; without any, list the workloads with their counts and best times."""

EXAMPLES = (
    "tunesmith query",
    "tunesmith query --workload 'matmul(512,512,512)' --order time --limit 10",
    "tunesmith query --status wrong_answer --json",
    "tunesmith query --url http://tuner:8700",
)

_STATUSES = [status.value for status in Status]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", metavar="SOURCE|HASH", help=f"{SOURCE_HELP}; or a workload's hash")
    parser.add_argument("--target", metavar="FINGERPRINT", help="of the machine")
    parser.add_argument("--job", metavar="ID", help="of the job that measured")
    parser.add_argument("--status", choices=_STATUSES, metavar="STATUS", help=", ".join(_STATUSES))
    parser.add_argument(
        "--order", choices=("created", "time"), default="created", help="newest or fastest first"
    )
    parser.add_argument("--cold", action="store_true", help="with --order time: those with flushed caches")
    parser.add_argument("--limit", type=positive_int, default=20, metavar="N", help="default: 20")
    parser.add_argument("--cursor", help="go on after a page of the same query: its next_cursor")
    add_remote(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    if args.order == "time" and not (args.workload or args.job):
        raise UsageError("--order time lists the records of one --workload or --job; name one")
    with known_of(args) as known:
        workload = resolve(args.workload, known).workload_hash if args.workload else None
        if workload or args.target or args.job or args.status:
            return _records(known, workload, args)
        return _workloads(known, args)


def _records(known: Known, workload: str | None, args: argparse.Namespace) -> int:
    query = RecordQuery(
        workload=workload,
        target=args.target,
        status=Status(args.status) if args.status else None,
        job=args.job,
        order=Order(args.order),
        cache="cold" if args.cold else "warm",
        limit=args.limit,
        cursor=args.cursor,
    )
    page = known.records(query)
    headers = ("record", "workload", "status", "time", "GFLOP/s", "trial", "when", "error")
    _show(known, args, "records", page, headers, [_record_row(item) for item in page.items], right=(3, 4, 5))
    return 0


def _workloads(known: Known, args: argparse.Namespace) -> int:
    page = known.workloads(args.limit, args.cursor)
    headers = ("workload", "hash", "type", "work", "records", "failed", "best", "GFLOP/s")
    rows = [_workload_row(item) for item in page.items]
    _show(known, args, "workloads", page, headers, rows, right=(3, 4, 5, 6, 7))
    return 0


def _record_row(item: RecordSummary) -> tuple[str, ...]:
    return (
        item.id,
        item.workload_name,
        item.status.value,
        format_time(item.race_s or item.time_s),
        f"{item.gflops:.1f}" if item.gflops else "–",
        str(item.trial),
        f"{item.created_at:%Y-%m-%d %H:%M}",
        item.error.strip().split("\n", 1)[0][:60],
    )


def _workload_row(item: WorkloadSummary) -> tuple[str, ...]:
    return (
        item.name,
        item.hash,
        item.dtype,
        format_count(item.flops),
        str(item.n_records),
        str(item.n_failed),
        format_time(item.best_s),
        f"{item.best_gflops:.1f}" if item.best_gflops else "–",
    )


def _show(
    known: Known,
    args: argparse.Namespace,
    kind: str,
    page: Page[Any],
    headers: tuple[str, ...],
    rows: list[tuple[str, ...]],
    right: tuple[int, ...],
) -> None:
    if args.json:
        emit_json({kind: [asdict(item) for item in page.items], "next_cursor": page.next_cursor})
        return
    if not rows:
        line(f"no {kind}; `{shlex.join(['tunesmith', 'tune', 'SOURCE', *known.words])}` makes some")
        return
    table(headers, rows, right=right)
    if page.next_cursor:
        note(f"more follow: --limit, or --cursor {page.next_cursor}")
