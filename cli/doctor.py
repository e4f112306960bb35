"""`tunesmith doctor`: is this machine fit for tuning, and what to do where it is not."""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

from tunesmith.cli import checks
from tunesmith.cli.checks import Check, Level
from tunesmith.cli.commands import add_common
from tunesmith.cli.database import database_url
from tunesmith.cli.output import emit_json, is_terminal, line
from tunesmith.cli.selftest import check_self_test

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Check what tuning needs: Python, LLVM, the CPU and its measured peaks, quiet cores, the OpenMP runtime, a C
compiler, the cost model, the database, disk space, and a small search from end to end. Exit code 1 if
something essential is broken."""

EXAMPLES = ("tunesmith doctor", "tunesmith doctor --quick --json")

_MARKS = {Level.OK: "ok", Level.WARNING: "warning", Level.BROKEN: "broken"}
_COLOURS = {Level.OK: "32", Level.WARNING: "33", Level.BROKEN: "31"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fresh", action="store_true", help="measure the machine's peaks again")
    parser.add_argument("--quick", action="store_true", help="leave out the self-test")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    found: list[Check] = []
    for check in _checks(args):
        found.append(check)
        if not args.json:
            _print(check)
    broken = [check for check in found if check.level is Level.BROKEN]
    if args.json:
        emit_json({"ok": not broken, "checks": [asdict(check) for check in found]})
    else:
        line()
        line(f"broken: {', '.join(c.name for c in broken)}" if broken else "this machine can tune")
    return 1 if broken else 0


def _checks(args: argparse.Namespace) -> Iterator[Check]:
    url = database_url(args.db)
    yield from _guarded("python", checks.check_python)
    yield from _guarded("llvm", checks.check_llvm)
    yield from _guarded("target", lambda: checks.check_target(fresh=args.fresh))
    yield from _guarded("governor", checks.check_governor)
    yield from _guarded("load", checks.check_load)
    yield from _guarded("openmp", checks.check_openmp)
    yield from _guarded("c compiler", checks.check_c_compiler)
    yield from _guarded("cost model", checks.check_cost_model)
    yield from _guarded("database", lambda: checks.check_database(url))
    yield from _guarded("disk", lambda: checks.check_disk(url))
    if not args.quick:
        yield from _guarded("self-test", check_self_test)


def _guarded(name: str, check: Callable[[], Check | list[Check]]) -> Iterator[Check]:
    """A check that raises is a finding: the doctor goes on to the next one."""
    try:
        found = check()
    except Exception as error:
        text = f"{type(error).__name__}: {error}".strip().split("\n", 1)[0]
        yield Check(name, Level.BROKEN, text, "reinstall Tunesmith; if it stays, report this line")
    else:
        yield from found if isinstance(found, list) else [found]


def _print(check: Check) -> None:
    mark = f"{_MARKS[check.level]:<8}"
    if is_terminal(sys.stdout):
        mark = f"\033[{_COLOURS[check.level]}m{mark}\033[0m"
    line(f"{mark} {check.name:<10}  {check.detail}")
    if check.advice:
        line(f"{'':<8} {'':<10}  → {check.advice}")
