"""``conv2d(n=1, h=56, w=56, ci=64, co=64, k=3, pad=1)``: a named operator with literal arguments."""

import ast
import difflib
import inspect
import types
from typing import Any, get_args

from tunesmith.frontend.operators import OPERATORS
from tunesmith.ir.dtypes import DType
from tunesmith.ir.errors import LimitError, ProgramError
from tunesmith.ir.language import parse
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.program import Program

__all__ = ["operator", "operator_text"]

_MAX_TEXT = 4096
_MAY_BE_ZERO = ("pad",)


def operator(text: str, limits: Limits = DEFAULT_LIMITS) -> Program:
    """The program of a named operator. Raises ``ProgramError`` that names the operator's parameters."""
    source = operator_text(text)
    try:
        return parse(source, limits=limits)
    except LimitError as e:
        raise LimitError(f"{text.strip()}: {e.reason}") from None
    except ProgramError as e:
        raise ProgramError(f"{text.strip()}: {e.reason}") from None


def operator_text(text: str) -> str:
    """The operator as text of the expression language. Nothing in ``text`` is evaluated."""
    name, positional, keywords = _read_call(text)
    if name not in OPERATORS:
        near = difflib.get_close_matches(name[:64], OPERATORS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ProgramError(f"unknown operator {name[:64]!r}; {hint}known are {', '.join(OPERATORS)}")
    signature = inspect.signature(OPERATORS[name])
    usage = f"{name}({', '.join(map(_usage, signature.parameters.values()))})"
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as e:
        raise ProgramError(f"{name}: {e}; its parameters are {usage}") from None
    for key, value in bound.arguments.items():
        _check(name, signature.parameters[key], value, usage)
    try:
        return OPERATORS[name](*bound.args, **bound.kwargs)
    except ProgramError as e:
        raise ProgramError(f"{name}: {e.reason}; its parameters are {usage}") from None


def _usage(p: inspect.Parameter) -> str:
    return f"{p.name}={p.default!r}"


def _read_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    wanted = "an operator is written matmul(m=512, n=512, k=512)"
    if len(text) > _MAX_TEXT:
        raise LimitError(f"an operator's text may have {_MAX_TEXT} characters")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        raise ProgramError(f"{wanted}; this is not valid syntax") from None
    match node:
        case ast.Name(id=name):
            return name, [], {}
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if any(k.arg is None for k in keywords):
                raise ProgramError(f"{wanted}; ** is not supported")
            return name, [_literal(a) for a in args], {str(k.arg): _literal(k.value) for k in keywords}
        case _:
            raise ProgramError(wanted)


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case _:
            raise ProgramError("an operator's arguments are numbers, strings, True, False or None")


def _check(name: str, p: inspect.Parameter, value: Any, usage: str) -> None:
    kinds = get_args(p.annotation) if isinstance(p.annotation, types.UnionType) else (p.annotation,)
    if not any(_is_a(value, kind) for kind in kinds):
        wanted = " or ".join("None" if k is types.NoneType else k.__name__ for k in kinds)
        raise ProgramError(f"{name}: {p.name} must be {wanted}; its parameters are {usage}")
    if type(value) is int and not (p.name not in _MAY_BE_ZERO) <= value <= DEFAULT_LIMITS.extent:
        least = int(p.name not in _MAY_BE_ZERO)
        raise ProgramError(f"{name}: {p.name} must be from {least} to {DEFAULT_LIMITS.extent}")
    if p.name == "dtype" and value not in tuple(DType):
        raise ProgramError(f"{name}: dtype must be {' or '.join(DType)}, not {value[:40]!r}")


def _is_a(value: Any, kind: Any) -> bool:
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind
