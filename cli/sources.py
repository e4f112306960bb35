"""From what a user names (a file, standard input, an operator) to a program. Files are parsed, never run."""

import ast
import re
import sys
import warnings
from pathlib import Path

from tunesmith.cli.commands import SOURCE_HELP
from tunesmith.cli.errors import UsageError
from tunesmith.ir import Program, parse
from tunesmith.ir.errors import LimitError, ProgramError

__all__ = ["LocatedError", "is_operator", "is_program", "load_program", "select"]

MAX_BYTES = 1 << 20
_OPERATOR = re.compile(r"\s*[A-Za-z_]\w*\s*\(")


class LocatedError(ProgramError):
    """A ProgramError that knows where its text came from: a file's path or ``<stdin>``."""

    def __init__(self, error: ProgramError, label: str, text: str) -> None:
        super().__init__(error.reason, error.line, error.column)
        self.label = label
        lines = text.split("\n")
        self.source = lines[error.line - 1] if 0 < error.line <= len(lines) else ""

    def __str__(self) -> str:
        where = f"{self.label}:{self.line}:{self.column}" if self.line else self.label
        return f"{where}: {self.reason}{self._excerpt()}"

    def _excerpt(self) -> str:
        if not self.source.strip():
            return ""
        # Tabs are kept under the caret, so that it stands right whatever their width.
        lead = "".join("\t" if c == "\t" else " " for c in self.source[: max(self.column - 1, 0)])
        return f"\n  {self.source.rstrip()}\n  {lead}^"


def is_program(source: str) -> bool:
    """Whether the word names a program rather than a record or a workload hash."""
    return (
        source == "-"
        or "::" in source
        or source.endswith(".py")
        or is_operator(source)
        or Path(source).is_file()
    )


def is_operator(source: str) -> bool:
    """Whether the word names an operator with its sizes."""
    return _OPERATOR.match(source) is not None and not Path(source).is_file()


def load_program(source: str) -> Program:
    """The program that SOURCE names. Raises LocatedError or UsageError."""
    if source == "-":
        return _parse(_read_stdin(), "<stdin>", None)
    if is_operator(source):
        from tunesmith.frontend import operator  # not needed for files

        return operator(source)
    path, _, name = source.partition("::")
    if not is_program(source):
        raise UsageError(f"{source!r} is no program: give {SOURCE_HELP}")
    return _parse(_read_file(Path(path)), path, name or None)


def select(text: str, name: str | None) -> tuple[str, str]:
    """The text with all but one function blanked out, so that lines keep their numbers, and its name.

    If any function is decorated with ``kernel`` or ``tunesmith.kernel``, an unnamed choice is among those.
    """
    defs = _functions(text)
    if not defs:
        raise ProgramError("no function found: write `def name(x: f32[128, 64]): return relu(x)`")
    chosen = _choose(defs, name)
    lines = text.split("\n")
    first, last = chosen.lineno, chosen.end_lineno or chosen.lineno
    return "\n".join(line if first <= i <= last else "" for i, line in enumerate(lines, 1)), chosen.name


def _choose(defs: list[ast.FunctionDef], name: str | None) -> ast.FunctionDef:
    marked = [d for d in defs if any(_is_kernel(x) for x in d.decorator_list)] or defs
    if name is None:
        if len(marked) == 1:
            return marked[0]
        names = ", ".join(d.name for d in marked)
        raise ProgramError(f"several functions; name one as FILE.py::name, of {names}", marked[1].lineno, 1)
    named = [d for d in defs if d.name == name]
    if not named:
        raise ProgramError(f"no function {name!r}; there are {', '.join(d.name for d in marked)}")
    return named[-1]  # as in Python, a later definition replaces an earlier one


def _functions(text: str) -> list[ast.FunctionDef]:
    try:
        with warnings.catch_warnings(action="ignore"):  # of the code around the kernel
            tree = ast.parse(text)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        parse(text)  # says what is wrong and where
        raise AssertionError("a text that Python refuses is no program") from None
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _is_kernel(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(node, ast.Name) and node.id == "kernel") or (
        isinstance(node, ast.Attribute) and node.attr == "kernel"
    )


def _parse(text: str, label: str, name: str | None) -> Program:
    try:
        only, found = select(text, name)
        return parse(only, name=found)
    except ProgramError as error:
        raise LocatedError(error, label, text) from error


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _decode(file.read(MAX_BYTES + 1), str(path))
    except FileNotFoundError:
        raise UsageError(f"no file {path}") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; name a file in it") from None


def _read_stdin() -> str:
    if sys.stdin.isatty():
        sys.stderr.write("reading a program from the terminal; end it with Ctrl-D\n")
    stream = getattr(sys.stdin, "buffer", None)
    data = stream.read(MAX_BYTES + 1) if stream is not None else sys.stdin.read(MAX_BYTES + 1).encode()
    return _decode(data, "<stdin>")


def _decode(data: bytes, label: str) -> str:
    if len(data) > MAX_BYTES:
        raise LocatedError(LimitError(f"more than {MAX_BYTES} bytes"), label, "")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LocatedError(ProgramError(f"not UTF-8 text (byte {error.start})"), label, "") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
