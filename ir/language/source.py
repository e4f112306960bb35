"""Source text: reading it into a syntax tree within limits, and saying where an error is."""

import ast
from dataclasses import dataclass
from typing import NoReturn

from tunesmith.ir.errors import LimitError, ProgramError
from tunesmith.ir.limits import Limits

__all__ = ["Source", "is_docstring", "read_functions"]


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of a text and where its first character stands in the user's file (both count from 0)."""

    lines: tuple[str, ...]
    first_line: int = 0
    first_column: int = 0

    def position(self, node: ast.AST) -> tuple[int, int]:
        """Line and column, from 1, in characters of the user's file."""
        line: int = getattr(node, "lineno", 0)
        if not 0 < line <= len(self.lines):
            return 0, 0
        head = self.lines[line - 1].encode()[: getattr(node, "col_offset", 0)]
        return line + self.first_line, len(head.decode(errors="replace")) + 1 + self.first_column

    def fail(self, node: ast.AST, reason: str) -> NoReturn:
        raise ProgramError(reason, *self.position(node))

    def exceed(self, node: ast.AST, reason: str) -> NoReturn:
        raise LimitError(reason, *self.position(node))


def read_functions(
    text: str, limits: Limits, first_line: int = 0, first_column: int = 0
) -> tuple[Source, tuple[ast.FunctionDef, ...]]:
    """The function definitions of a text. Anything that is not a small module of plain ones raises."""
    size = len(text.encode(errors="replace"))
    if size > limits.text_bytes:
        kept = text.encode(errors="replace")[: limits.text_bytes].decode(errors="ignore")
        line, column = first_line + 1 + kept.count("\n"), first_column + len(kept) - kept.rfind("\n")
        raise LimitError(f"the text has {size} bytes; the limit is {limits.text_bytes}", line, column)
    source = Source(_python_lines(text), first_line, first_column)
    tree = _syntax_tree(text, source)
    _check_nesting(tree, source, limits)
    _check_names(tree, source, limits)
    return source, tuple(_function(node, source) for node in tree.body if not is_docstring(node))


def _python_lines(text: str) -> tuple[str, ...]:
    """Lines as Python counts them: str.splitlines also breaks at form feeds and the like."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return tuple(line.encode(errors="replace").decode() for line in lines)


def _syntax_tree(text: str, source: Source) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as e:
        hint = "; a scalar is written f32 or f64" if "[]" in text else ""
        line, column = e.lineno or 0, max(e.offset or 0, 0)
        at = (line + source.first_line, column + source.first_column) if line else (0, 0)
        raise ProgramError(f"not valid Python syntax: {e.msg}{hint}", *at) from None
    except (RecursionError, MemoryError):
        start = source.first_line + 1, source.first_column + 1
        raise LimitError("the text is nested too deeply", *start) from None
    except (ValueError, OverflowError, Warning) as e:
        raise ProgramError(f"not a readable text: {e}".encode(errors="replace").decode()) from None


def _check_nesting(tree: ast.Module, source: Source, limits: Limits) -> None:
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > limits.nesting:
            source.exceed(node, f"nested more than {limits.nesting} levels deep")
        stack += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def _check_names(tree: ast.Module, source: Source, limits: Limits) -> None:
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name)
                | ast.arg(arg=name)
                | ast.keyword(arg=str(name))
                | ast.FunctionDef(name=name)
            ):
                if not name.isascii():
                    source.fail(node, "names must be ASCII")
                if len(name) > limits.name:
                    source.exceed(node, f"a name has more than {limits.name} characters")
            case _:
                pass


def is_docstring(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def _function(node: ast.stmt, source: Source) -> ast.FunctionDef:
    if not isinstance(node, ast.FunctionDef):
        source.fail(node, "only function definitions are allowed here")
    if node.decorator_list:
        source.fail(node.decorator_list[0], "decorators are not supported")
    return node
