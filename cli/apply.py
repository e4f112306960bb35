"""`tunesmith apply`: rebuild the best kernel and write it where other programs can use it."""

import argparse
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tunesmith.cli.commands import WHAT, WHAT_HELP, add_common, positive_int
from tunesmith.cli.errors import NotFoundError
from tunesmith.cli.known import Known, known_of
from tunesmith.cli.lookup import Subject, best_of, near_of, resolve, this_machine
from tunesmith.cli.output import emit_json, format_bytes, line
from tunesmith.cli.remote import add_remote
from tunesmith.db import Match
from tunesmith.records import Record, Target

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run", "write_all"]

SUMMARY = """\
Rebuild the best kernel of a program, or one record, and write it. The shared library needs neither Python nor
Tunesmith; the header says how to call it. With --near, a shape that was never tuned gets the kernel that
others suggest, verified and timed here once before it is written.

With --url the record comes from a service, and is data: the kernel is built here, for this machine, and
verified once before it is written."""

EXAMPLES = (
    "tunesmith apply examples/bert_ffn.py -o build/",
    "tunesmith apply 'matmul(500,500,500)' --near",
    "tunesmith apply 'matmul(512,512,512)' --url http://tuner:8700 -o build/",
    "tunesmith apply 'matmul(512,512,512)' --name mm512 --emit library,header,asm",
)

_FILES = {
    "llvm": "{name}.ll",
    "asm": "{name}.s",
    "object": "{name}.o",
    "library": "lib{name}.so",
    "header": "{name}.h",
}
_C_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar=WHAT, help=WHAT_HELP)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="DIR", help="default: this folder"
    )
    parser.add_argument(
        "--name", type=_c_name, help="of the C function and the files (default: the program's)"
    )
    parser.add_argument(
        "--emit", type=_kinds, default=("library", "header"), metavar="KIND,…", help=f"of {', '.join(_FILES)}"
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--near", action="store_true", help="if never tuned, take it from other shapes")
    add_remote(parser)
    add_common(parser)


def _c_name(text: str) -> str:
    if not _C_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no C identifier")
    return text


def _kinds(text: str) -> tuple[str, ...]:
    wanted = tuple(dict.fromkeys(filter(None, text.split(","))))
    unknown = [kind for kind in wanted if kind not in _FILES]
    if unknown or not wanted:
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(_FILES)}")
    return wanted


def run(args: argparse.Namespace) -> int:
    with known_of(args) as known:
        subject = resolve(args.what, known)
        record_id, record = _record(subject, args, known)
        verified = ", verified here" if known.url and _is_here(record.target) else ""

    from tunesmith.tuning import artifact
    from tunesmith.tuning.c_names import symbol_name
    from tunesmith.tuning.workload import workload_of

    if subject.program is not None:  # names are the user's, whoever tuned the same computation first
        record = replace(record, workload=workload_of(subject.program)[0])
    name = args.name or symbol_name(record.workload.name)
    built = {_FILES[kind].format(name=name): artifact(record, kind, name=name) for kind in args.emit}
    write_all(args.output, built)
    if args.json:
        files = [{"path": str(args.output / file), "size_bytes": len(data)} for file, data in built.items()]
        emit_json({"record": record_id, "name": name, "files": files})
        return 0
    origin = f"record {record_id}" if record_id else "from other shapes"
    line(f"{origin}: {record.workload.name}, tuned for {record.target.cpu}{verified}")
    for file, data in built.items():
        line(f"wrote {args.output / file} ({format_bytes(len(data))})")
    return 0


def _record(subject: Subject, args: argparse.Namespace, known: Known) -> tuple[str | None, Record]:
    """What to build, and its id if it is kept somewhere. A record that was named is for its own target."""
    named = subject.record
    if named is not None:
        return named.id, known.usable(named, named.target) if _is_here(named.target) else named
    here = this_machine(args.threads)
    try:
        found = best_of(subject, here, known)
    except NotFoundError:
        if not args.near:
            raise
        answer = near_of(subject, here, known)
        assert subject.program is not None
        return known.confirm(subject.program, answer)
    record = found.record if found.match is Match.EXACT else replace(found.record, target=here)
    return record.id, known.usable(record, here)


def _is_here(target: Target) -> bool:
    return target.fingerprint == this_machine(target.threads).fingerprint


def write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files under names of their own first, then move them into place: a reader sees old or new."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting: dict[str, str] = {}
    try:
        for name, data in files.items():
            handle, waiting[name] = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            os.chmod(waiting[name], 0o755 if name.endswith(".so") else 0o644)
        for name in files:
            os.replace(waiting.pop(name), folder / name)
    finally:
        for path in waiting.values():
            with suppress(OSError):
                os.unlink(path)
