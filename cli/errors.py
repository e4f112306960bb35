"""What goes wrong at the command line, and how it is told.

TunesmithError
  CommandError(exit code)     anything a command refuses
    UsageError     2          words that make no sense
    NotFoundError  3          nothing by that name in the database
  ProgramError     2          shown with file, line, column and a caret (``cli.sources.LocatedError``)
  ServiceError                2 or 3 by its HTTP status, where that says the same, else 1

The packages whose errors these are get imported when there is one, so that a command without them starts at
once.
"""

import sys
import traceback
from typing import Any

from tunesmith import TunesmithError

__all__ = ["CommandError", "NotFoundError", "UsageError", "exit_code", "report"]

FAILURE, USAGE, NOT_FOUND = 1, 2, 3
_CODES = {400: USAGE, 404: NOT_FOUND, 422: USAGE}


class CommandError(TunesmithError):
    code = FAILURE


class UsageError(CommandError):
    code = USAGE


class NotFoundError(CommandError):
    code = NOT_FOUND


def exit_code(error: BaseException) -> int:
    if isinstance(error, CommandError):
        return error.code
    if not isinstance(error, TunesmithError):
        return FAILURE
    status = getattr(error, "status", None)  # of a service's answer
    return _domain_code(error) if status is None else _CODES.get(status, FAILURE)


def _domain_code(error: TunesmithError) -> int:
    from tunesmith.db.errors import BadQuery, NotFound
    from tunesmith.ir.errors import ProgramError

    if isinstance(error, NotFound):
        return NOT_FOUND
    return USAGE if isinstance(error, BadQuery | ProgramError) else FAILURE


def report(error: Exception, *, as_json: bool) -> int:
    """Tell the user and return the exit code. A fault of ours comes with its traceback."""
    ours = not isinstance(error, TunesmithError | OSError)
    if ours:
        traceback.print_exception(error)
    if as_json:
        from tunesmith.cli.output import emit_json

        emit_json({"error": _as_json(error)})
    if not ours:
        sys.stderr.write(f"error: {_text(error)}\n")
    return exit_code(error)


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def _as_json(error: Exception) -> dict[str, Any]:
    from tunesmith.cli.sources import LocatedError
    from tunesmith.ir.errors import ProgramError

    data: dict[str, Any] = {"type": type(error).__name__, "message": _text(error)}
    data["exit_code"] = exit_code(error)
    if isinstance(error, ProgramError):
        data |= {"message": error.reason, "line": error.line, "column": error.column}
    if isinstance(error, LocatedError):
        data |= {"type": "ProgramError", "source": error.label, "text": error.source}
    return data
