"""The `tunesmith` command: finds the subcommand and hands over to its module.

Nothing else is imported here: starting the interpreter is all that `--version` costs. Arguments are read with
argparse, which takes 10 ms; Typer takes 170 ms a call, more than `best` can spare.
"""

import json
import sys
from collections.abc import Sequence
from typing import NoReturn

from tunesmith import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 ok, 1 failure, 2 usage or bad program, 3 not found, 130 interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in ("--version", "-V"):
        return _version("--json" in words)
    try:
        from tunesmith.cli.commands import dispatch

        code = dispatch(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _interrupted("--json" in words)
    except BrokenPipeError:
        return _closed_pipe()
    except Exception as error:
        from tunesmith.cli.errors import report

        return report(error, as_json="--json" in words)


def _version(as_json: bool) -> int:
    sys.stdout.write((json.dumps({"version": __version__}) if as_json else f"tunesmith {__version__}") + "\n")
    return 0


def _interrupted(as_json: bool) -> int:
    """Stopped at once: what was finished before is in the database, as after any other end."""
    if as_json:
        error = {"type": "Interrupted", "message": "interrupted", "exit_code": 130}
        sys.stdout.write(json.dumps({"error": error}) + "\n")
        sys.stdout.flush()
    sys.stderr.write("interrupted; finished trials are kept, the same command without --fresh goes on\n")
    return 130


def _closed_pipe() -> int:
    """The reader went away (`tunesmith query | head`): end quietly, as other tools do."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _run() -> NoReturn:
    sys.exit(main())


if __name__ == "__main__":
    _run()
