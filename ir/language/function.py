"""Programs from decorated Python functions: their source is read, they are never called."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from tunesmith.ir.errors import ProgramError
from tunesmith.ir.language.parse import parse_at
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.program import Program

__all__ = ["program_from_function"]


def program_from_function(function: Callable[..., Any], limits: Limits = DEFAULT_LIMITS) -> Program:
    """The program that the function's source defines, decorators aside. Errors name the file's lines."""
    try:
        lines, start = inspect.getsourcelines(function)
    except (OSError, TypeError) as e:
        raise ProgramError(f"the source of {function!r} cannot be read: {e}") from None
    text = textwrap.dedent("".join(lines))
    indent = len(lines[0]) - len(textwrap.dedent("".join(lines)).splitlines(keepends=True)[0])
    skipped = _decorator_lines(text)
    body = "".join(text.splitlines(keepends=True)[skipped:])
    return parse_at(body, function.__name__, limits, start - 1 + skipped, indent)


def _decorator_lines(text: str) -> int:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return 0
    first = tree.body[0]
    return first.lineno - 1 if isinstance(first, ast.FunctionDef) else 0
