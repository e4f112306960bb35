"""`tunesmith db`: care of the tuning database, and records in and out of it."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tunesmith.cli.commands import add_common
from tunesmith.cli.database import database_url, open_database
from tunesmith.cli.output import emit_json, format_bytes, line, note, table
from tunesmith.cli.spans import span
from tunesmith.records import Status

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Care of the tuning database. `backup` copies a SQLite file in use; PostgreSQL has pg_dump. `prune` forgets
old trials that nothing needs. `export` and `import` carry records from any database to any other, as lines of
JSON; `import` also reads logs of TVM's Ansor and MetaSchedule, as observations that searches start from and
models learn from, and that are never served."""

EXAMPLES = (
    "tunesmith db current --json",
    "tunesmith db backup tunesmith-$(date +%F).db",
    "tunesmith db restore tunesmith-2026-01-31.db --force",
    "tunesmith db prune --older-than 90d --failed-only --dry-run",
    "tunesmith db export records.jsonl.gz --status ok",
    "tunesmith db export - | tunesmith db import - --db postgresql://user@host/name",
    "tunesmith db import matmul.json --from ansor",
)

_ACTS_HELP = {
    "upgrade": "bring the schema up to date; a SQLite file is copied before",
    "current": "which schema the database has, its size and its counts",
    "backup": "copy a SQLite database while it is in use",
    "restore": "put a backup in the place of a SQLite database",
    "prune": "forget old trials that nothing needs, and old events",
    "import": "take over records from a file",
    "export": "write records to a file, a line each",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", required=True, metavar="|".join(_ACTS_HELP))
    made = {name: acts.add_parser(name, help=text, description=text) for name, text in _ACTS_HELP.items()}
    for name in ("backup", "restore"):
        made[name].add_argument("file", type=Path, metavar="FILE")
    made["backup"].add_argument("--force", action="store_true", help="replace a FILE that is there")
    made["restore"].add_argument("--force", action="store_true", help="replace a database that holds data")
    prune = made["prune"]
    prune.add_argument("--older-than", type=span, required=True, metavar="TIME", help="such as 90d or 12h")
    prune.add_argument("--failed-only", action="store_true", help="only failed trials")
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")
    made["import"].add_argument("file", metavar="FILE|-", help="also compressed with gzip")
    made["import"].add_argument(
        "--from", dest="source", choices=("tunesmith", "ansor", "metaschedule"), metavar="FORMAT",
        help="tunesmith, ansor or metaschedule (a folder, or its database_tuning_record.json); "
        "default: what the file looks like",
    )  # fmt: skip
    export = made["export"]
    export.add_argument("file", metavar="FILE|-", nargs="?", default="-", help="compressed if it ends in .gz")
    export.add_argument("--workload", metavar="HASH", help="only its records")
    export.add_argument("--target", metavar="FINGERPRINT", help="only those of this machine")
    statuses = [status.value for status in Status]
    export.add_argument("--status", choices=statuses, metavar="STATUS", help=", ".join(statuses))
    for act in made.values():
        add_common(act)


def run(args: argparse.Namespace) -> int:
    return int(_ACTS[args.act](args))


def _upgrade(args: argparse.Namespace) -> int:
    from tunesmith.db.maintenance import upgrade_database

    done = upgrade_database(database_url(args.db))
    if args.json:
        emit_json(asdict(done))
        return 0
    if done.backup:
        line(f"a copy as it was: {done.backup}")
    if done.before == done.after:
        line(f"{done.where} has schema {done.after}, the newest")
    else:
        line(f"{done.where}: schema {done.before or 'none'} → {done.after}")
    return 0


_ADVICE = {
    "older": "older than this Tunesmith's; `tunesmith db upgrade` brings it up to date",
    "newer": "newer than this Tunesmith's: pip install --upgrade tunesmith",
    "empty": "`tunesmith db upgrade` sets it up",
    "absent": "`tunesmith db upgrade` makes one",
    "foreign": "another program's database",
}


def _current(args: argparse.Namespace) -> int:
    from tunesmith.db.maintenance import condition

    found = condition(database_url(args.db))
    if args.json:
        emit_json(asdict(found))
        return 0
    line(found.where)
    advice = f" ({_ADVICE[found.state]})" if found.state in _ADVICE else ""
    line(f"schema {found.found or 'none'}, newest known {found.head}{advice}")
    if found.counts:
        line(format_bytes(found.size_bytes))
        line()
        table(("table", "rows"), [(name, str(n)) for name, n in found.counts.items()], right=(1,))
    return 0


def _backup(args: argparse.Namespace) -> int:
    from tunesmith.db.maintenance import backup

    size = backup(database_url(args.db), args.file, overwrite=args.force)
    if args.json:
        emit_json({"file": args.file, "size_bytes": size})
    else:
        line(f"{args.file}: {format_bytes(size)}, checked")
    return 0


def _restore(args: argparse.Namespace) -> int:
    from tunesmith.db.maintenance import restore

    found = restore(database_url(args.db), args.file, overwrite=args.force)
    if args.json:
        emit_json(asdict(found))
    else:
        line(f"{found.where} is as in {args.file}: {found.counts['record']} records, schema {found.found}")
    return 0


def _prune(args: argparse.Namespace) -> int:
    with open_database(args.db) as store:
        done = store.prune(args.older_than, failed_only=args.failed_only, dry_run=args.dry_run)
    if args.json:
        emit_json({**asdict(done), "dry_run": args.dry_run})
        return 0
    verb = "would go" if args.dry_run else "removed"
    line(f"records {verb}: {done.records} ({done.failed} failed); as old, but needed: {done.kept}")
    if not args.failed_only:
        line(f"events: {done.events}, answered requests: {done.requests}, days of usage: {done.usage}")
    return 0


def _export(args: argparse.Namespace) -> int:
    from tunesmith.cli.files import Output
    from tunesmith.service.transfer import FORMAT, VERSION, line_of

    status = Status(args.status) if args.status else None
    count = 0
    with open_database(args.db) as store, Output(args.file) as out:
        out.line({"format": FORMAT, "version": VERSION})
        for stored in store.export(workload=args.workload, target=args.target, status=status):
            out.line(line_of(stored))
            count += 1
    told = {"records": count, "file": args.file}
    if args.json and args.file != "-":
        emit_json(told)
    else:
        note(f"{count} records")
    return 0


def _import(args: argparse.Namespace) -> int:
    from tunesmith.cli.importing import run_import

    with open_database(args.db, create=True) as store:
        return run_import(store, args.file, args.source, as_json=args.json)


_ACTS: dict[str, Any] = {
    "upgrade": _upgrade,
    "current": _current,
    "backup": _backup,
    "restore": _restore,
    "prune": _prune,
    "import": _import,
    "export": _export,
}
