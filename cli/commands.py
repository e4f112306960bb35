"""The subcommands: their names, what they are for, and the way from words to a call.

Each command is a module of this package with ``SUMMARY``, ``EXAMPLES``, ``arguments(parser)`` and
``run(args) -> int``. Only the module of the command that is called gets imported.
"""

import argparse
import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = [
    "COMMANDS",
    "SOURCE_HELP",
    "WHAT",
    "WHAT_HELP",
    "Parser",
    "add_common",
    "comma_list",
    "dispatch",
    "positive_float",
    "positive_int",
    "seed",
    "weights",
]

COMMANDS = {
    "tune": "search for the fastest verified kernels of programs on this machine",
    "best": "the best known kernel of a program, from the database or a service",
    "apply": "write the best kernel as a shared library, object, assembly or LLVM IR",
    "query": "list workloads and records of the database or a service",
    "explain": "why a record takes its time: what binds, and what the cost model makes of it",
    "show": "print a program, schedule, loop nest, LLVM IR, assembly or record",
    "serve": "run the HTTP service",
    "worker": "tune the jobs of a database without the HTTP service",
    "jobs": "list, watch, pause, resume, stop and cancel jobs of an HTTP service",
    "keys": "make, list and revoke keys of the HTTP service",
    "db": "upgrade, back up, restore, prune, export and import the database",
    "collect": "measure many tasks for the cost model to learn from",
    "train": "train the cost model on a database, and evaluate it",
    "doctor": "check that this machine is fit for tuning",
}

WHAT = "SOURCE|HASH|RECORD"
SOURCE_HELP = "FILE.py, FILE.py::name, - (standard input), or an operator such as matmul(512,512,512)"
WHAT_HELP = f"{SOURCE_HELP}; or a workload's hash, or a record's id"

_FOOTER = f"""\
SOURCE is {SOURCE_HELP}.

examples:
  tunesmith tune 'matmul(512,512,512)'
  tunesmith tune examples/bert_ffn.py --trials 64
  tunesmith best examples/bert_ffn.py --json
  tunesmith apply examples/bert_ffn.py -o build/

`tunesmith COMMAND --help` says more.
The database is --db URL, else $TUNESMITH_DB, else a file in your data folder. With --url URL, or else
$TUNESMITH_URL, tune, best, apply, query and show ask a service, with the key of --key-file or $TUNESMITH_KEY.
Exit codes: 0 ok, 1 failure, 2 usage or bad program, 3 not found, 130 interrupted.
"""


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of leaving the process, so that `--json` holds for usage errors too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses what is unknown at once: a subcommand's parser would leave it to its parent, who would then
        show the wrong usage."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = difflib.get_close_matches(unknown[0], self._option_string_actions, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        from tunesmith.cli.errors import UsageError

        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def dispatch(words: Sequence[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        sys.stdout.write(_overview())
        return 0
    name = words[0]
    if name not in COMMANDS:
        _unknown(name)
    module = importlib.import_module(f"tunesmith.cli.{name}")
    parser = Parser(
        prog=f"tunesmith {name}",
        description=module.SUMMARY,
        epilog="examples:\n" + "\n".join(f"  {line}" for line in module.EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(parser)
    try:
        args = parser.parse_args(words[1:])
    except SystemExit as end:  # --help printed itself
        return int(end.code or 0)
    return int(module.run(args))


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"usage: tunesmith [--version] COMMAND [--json] …\n\n{lines}\n\n{_FOOTER}"


def _unknown(name: str) -> NoReturn:
    from tunesmith.cli.errors import UsageError

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean `tunesmith {near[0]}`?" if near else f"commands: {', '.join(COMMANDS)}"
    raise UsageError(f"no command {name!r}; {hint}")


def add_common(parser: argparse.ArgumentParser, *, db: bool = True) -> None:
    """``--json``, and ``--db`` for the commands that use the database."""
    if db:
        parser.add_argument(
            "--db", metavar="URL", help="default: $TUNESMITH_DB, else a file in your data folder"
        )
    parser.add_argument("--json", action="store_true", help="write one JSON object to standard output")


def comma_list(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 63:
        raise ValueError(text)
    return value


def weights(text: str) -> tuple[float, ...]:
    """Positive numbers between commas."""
    return tuple(positive_float(part) for part in text.split(","))


positive_int.__name__ = "positive integer"  # argparse names the type by this in its messages
positive_float.__name__ = "positive number"
seed.__name__ = "integer from 0 to 2**63 - 1"
weights.__name__ = "list of positive numbers"
