"""`tunesmith db`: the database itself, its schema, backups and what is in it."""

import argparse
import contextlib
import gzip
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tunesmith.cli.commands import add_common
from tunesmith.cli.database import database_url, open_database
from tunesmith.cli.errors import UsageError
from tunesmith.cli.lookup import resolve
from tunesmith.cli.output import emit_json, line, note
from tunesmith.db import default_url
from tunesmith.records import Status

if TYPE_CHECKING:
    from tunesmith.tuning.imports import ImportResult

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Look after the tuning database: bring its schema up to date, back it up, restore it, take old records away,
move records from one database to another."""

EXAMPLES = (
    "tunesmith db current --json",
    "tunesmith db backup /backups/tunesmith.db",
    "tunesmith db prune --older-than 180d --failed-only --dry-run",
    "tunesmith db export records.jsonl.gz",
    "tunesmith db import records.jsonl.gz --db postgresql://tuner@host/tunesmith",
)

_DAYS = {"d": 1, "w": 7}
_STATUSES = [status.value for status in Status]


def arguments(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(
        dest="act", required=True, metavar="current|upgrade|backup|restore|prune|export|import"
    )
    current = acts.add_parser("current", help="its schema, size and counts; changes nothing")
    upgrade = acts.add_parser("upgrade", help="bring the schema up to date, after a backup")
    backup = acts.add_parser("backup", help="copy a SQLite database while it is in use")
    restore = acts.add_parser("restore", help="put a backup in its place")
    prune = acts.add_parser("prune", help="remove old records that nobody is served")
    export = acts.add_parser("export", help="write records as lines of JSON")
    imports = acts.add_parser("import", help="take over records that were exported")
    for act in (backup, restore):
        act.add_argument("file", type=Path, metavar="FILE")
        act.add_argument("--force", action="store_true", help="replace what is there")
    prune.add_argument("--older-than", type=_age, required=True, metavar="TIME", help="such as 180d or 26w")
    prune.add_argument("--failed-only", action="store_true", help="only trials that failed")
    prune.add_argument("--dry-run", action="store_true", help="count, and remove nothing")
    for act in (export, imports):
        act.add_argument("file", metavar="FILE", help="compressed if it ends in .gz; - is the pipe")
    export.add_argument("--workload", metavar="SOURCE|HASH", help="only of this program")
    export.add_argument("--target", metavar="FINGERPRINT", help="only of this machine")
    export.add_argument("--status", choices=_STATUSES, metavar="STATUS", help=", ".join(_STATUSES))
    imports.add_argument(
        "--trusted", action="store_true", help="your own: schedules and times are not checked"
    )
    for act in (current, upgrade, backup, restore, prune, export, imports):
        add_common(act)


def run(args: argparse.Namespace) -> int:
    return _ACTS[args.act](args)


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,5})([dw])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; write 180d or 26w")
    return timedelta(days=int(found[1]) * _DAYS[found[2]])


def _url(args: argparse.Namespace) -> str:
    return database_url(args.db) or default_url()


def _current(args: argparse.Namespace) -> int:
    from tunesmith.db.inspection import inspect
    from tunesmith.db.revisions import HEAD

    found = inspect(_url(args))
    if args.json:
        emit_json({**asdict(found), "state": found.state, "known": HEAD})
        return 0
    advice = {
        "older": "; `tunesmith db upgrade` brings it up to date",
        "newer": "; a newer Tunesmith is needed (pip install --upgrade tunesmith)",
        "empty": "; `tunesmith db upgrade` sets it up",
        "foreign": "; it belongs to another program",
    }.get(found.state, "")
    line(f"{found.where} ({found.kind}): schema {found.revision or 'none'}, {found.state}{advice}")
    counts = ", ".join(f"{n:,} {name}{'s' if n != 1 else ''}" for name, n in found.counts.items() if n)
    line(f"{found.size_bytes / 2**20:,.1f} MiB; {counts or 'nothing in it'}")
    return 0


def _upgrade(args: argparse.Namespace) -> int:
    from tunesmith.db.backups import backup
    from tunesmith.db.inspection import inspect
    from tunesmith.db.urls import normalize, sqlite_path

    url = _url(args)
    path = sqlite_path(normalize(url))
    before, saved = None, None
    if path is None or path.exists():
        found = inspect(url)
        before = found.revision
        if path is not None and found.state == "older" and any(found.counts.values()):
            saved = path.with_name(f"{path.name}.{found.revision}.backup")
            backup(url, saved, force=True)
    with open_database(args.db, create=True):
        pass
    after = inspect(url).revision
    if args.json:
        emit_json({"from": before, "to": after, "backup": saved and str(saved)})
    elif before == after:
        line(f"schema {after}: up to date")
    else:
        line(f"schema {before or 'none'} → {after}" + (f"; the old database is in {saved}" if saved else ""))
    return 0


def _backup(args: argparse.Namespace) -> int:
    from tunesmith.db.backups import backup

    size = backup(_url(args), args.file, force=args.force)
    if args.json:
        emit_json({"file": str(args.file), "size_bytes": size})
    else:
        line(f"{args.file}: {size / 2**20:,.1f} MiB, checked and on disk")
    return 0


def _restore(args: argparse.Namespace) -> int:
    from tunesmith.db.backups import restore
    from tunesmith.db.inspection import inspect

    restore(_url(args), args.file, force=args.force)
    found = inspect(_url(args))
    if args.json:
        emit_json({"file": str(args.file), "counts": found.counts})
    else:
        line(f"{found.where}: restored, with {found.counts.get('record', 0):,} records")
    return 0


def _prune(args: argparse.Namespace) -> int:
    with open_database(args.db) as store:
        gone = store.prune(args.older_than, failed_only=args.failed_only, dry_run=args.dry_run)
        events = 0 if args.dry_run or args.failed_only else store.events.prune(args.older_than)
    if args.json:
        emit_json({**asdict(gone), "events": events, "dry_run": args.dry_run})
    else:
        what = "would go" if args.dry_run else "removed"
        line(f"{gone.records:,} records {what}, {gone.failed:,} of them failures; best and raced ones stay")
    return 0


def _export(args: argparse.Namespace) -> int:
    if args.file == "-" and args.json:
        raise UsageError("--json and an export to standard output would mix; name a file")
    workload = resolve(args.workload, args.db).workload_hash if args.workload else None
    status = Status(args.status) if args.status else None
    n = 0
    with open_database(args.db) as store, _writing(args.file) as out:
        for entry in store.export(workload=workload, target=args.target, status=status):
            out.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
            n += "record" in entry
    if args.json:
        emit_json({"file": args.file, "records": n})
    else:
        note(f"{n:,} records written")
    return 0


def _import(args: argparse.Namespace) -> int:
    from tunesmith.tuning.imports import import_lines

    with open_database(args.db, create=True) as store, _reading(args.file) as lines:
        result = import_lines(store, lines, trusted=args.trusted)
    if args.json:
        emit_json({"new": result.new, "known": result.known, "refused": dict(result.refused)})
    else:
        _print_import(result)
    return 0


def _print_import(result: "ImportResult") -> None:
    line(f"{result.new:,} records are new, {result.known:,} were there already")
    for reason, n in result.refused.most_common():
        line(f"{n:,} lines refused: {reason}")


@contextlib.contextmanager
def _writing(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdout.buffer
        return
    with open(name, "wb") as file:
        if not name.endswith(".gz"):
            yield file
            return
        with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
            yield packed  # type: ignore[misc]


@contextlib.contextmanager
def _reading(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
    elif name.endswith(".gz"):
        with gzip.open(name, "rb") as packed:
            yield packed  # type: ignore[misc]
    else:
        with open(name, "rb") as file:
            yield file


_ACTS = {
    "current": _current, "upgrade": _upgrade, "backup": _backup, "restore": _restore, "prune": _prune,
    "export": _export, "import": _import,
}  # fmt: skip
