"""``conv2d(n=1, h=56, w=56, ci=64, co=64, k=3, pad=1)``: a named operator with literal arguments."""

import ast
import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tunesmith.frontend.operators import OPERATORS
from tunesmith.frontend.parameters import usage, wrong_with
from tunesmith.ir.errors import LimitError, ProgramError
from tunesmith.ir.language import parse
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.program import Program

__all__ = ["operator", "operator_text"]

_MAX_TEXT = 4096


def operator(text: str, limits: Limits = DEFAULT_LIMITS) -> Program:
    """The program of a named operator. Raises ``ProgramError`` that names the operator's parameters."""
    source = operator_text(text)
    try:
        return parse(source, limits=limits)
    except LimitError as e:
        raise LimitError(f"{text.strip()}: {e.reason}", 1, 1) from None
    except ProgramError as e:
        raise ProgramError(f"{text.strip()}: {e.reason}", 1, 1) from None


def operator_text(text: str) -> str:
    """The operator as text of the expression language. Nothing in ``text`` is evaluated."""
    call = _read_call(text)
    name = call.name
    if name not in OPERATORS:
        near = difflib.get_close_matches(name[:64], OPERATORS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        call.fail(f"unknown operator {name[:64]!r}; {hint}known are {', '.join(OPERATORS)}")
    signature = inspect.signature(OPERATORS[name])
    try:
        bound = signature.bind(*call.positional, **call.keywords)
    except TypeError as e:
        call.fail(f"{name}: {e}; its parameters are {usage(name)}")
    values = {key: call.literal(node) for key, node in bound.arguments.items()}
    for key, value in values.items():
        wrong = wrong_with(name, key, value)
        if wrong:
            call.fail(f"{name}: {wrong}", bound.arguments[key])
    try:
        return OPERATORS[name](**values)
    except ProgramError as e:
        call.fail(f"{name}: {e.reason}; its parameters are {usage(name)}")


@dataclass(frozen=True, slots=True)
class _Call:
    """A call as it was written: syntax trees of its arguments, and where they stand."""

    text: str
    name: str
    positional: Sequence[ast.expr] = ()
    keywords: Mapping[str, ast.expr] = field(default_factory=dict)

    def fail(self, reason: str, node: ast.expr | None = None) -> NoReturn:
        raise ProgramError(reason, *self._place(node))

    def literal(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case _:
                self.fail("an operator's arguments are numbers, strings, True, False or None", node)

    def _place(self, node: ast.expr | None) -> tuple[int, int]:
        """Line and column, from 1; without a node, where the call begins."""
        line, column = (1, 0) if node is None else (node.lineno, node.col_offset)
        lead = self.text[: len(self.text) - len(self.text.lstrip())]
        indent = len(lead) - lead.rfind("\n") - 1 if line == 1 else 0
        return line + lead.count("\n"), column + indent + 1


def _read_call(text: str) -> _Call:
    wanted = "an operator is written matmul(m=512, n=512, k=512)"
    if len(text) > _MAX_TEXT:
        raise LimitError(f"an operator's text may have {_MAX_TEXT} characters", 1, _MAX_TEXT + 1)
    whole = _Call(text, "")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        whole.fail(f"{wanted}; this is not valid syntax")
    match node:
        case ast.Name(id=name):
            return _Call(text, name)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if any(k.arg is None for k in keywords):
                whole.fail(f"{wanted}; ** is not supported")
            return _Call(text, name, args, {str(k.arg): k.value for k in keywords})
        case _:
            whole.fail(wanted)
