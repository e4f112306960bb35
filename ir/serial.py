"""Programs as JSON: what records store and workers exchange.

program  = {"version": 1, "name", "inputs": [input…], "stages": [stage…], "outputs": [name…]}
input    = {"name", "shape": [n…], "dtype", "const": bool}
stage    = {"name", "axes": [[name, extent]…], "reduce_axes": [[name, extent]…], "reducer": name or null,
            "body": expr, "dtype", "accumulate"}
expr     = ["const", number or "inf" "-inf" "nan"] | ["load", tensor, [index…]] | ["unary", op, expr]
         | ["binary", op, expr, expr] | ["compare", op, expr, expr] | ["select", expr, expr, expr]
         | ["within", [index…], expr, expr]
index    = [constant, [axis, coefficient]…]
"""

import math
from enum import StrEnum
from typing import Any, TypeVar

from tunesmith.ir.affine import Affine
from tunesmith.ir.dtypes import DType
from tunesmith.ir.errors import LimitError, ProgramError
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Reducer,
    Select,
    Unary,
    UnaryOp,
    Within,
)
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.program import Axis, Program, Stage, Tensor
from tunesmith.ir.verify import verify_program

__all__ = ["PROGRAM_VERSION", "expr_from_json", "expr_to_json", "program_from_json", "program_to_json"]

PROGRAM_VERSION = 1

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


def program_to_json(program: Program) -> dict[str, Any]:
    return {
        "version": PROGRAM_VERSION,
        "name": program.name,
        "inputs": [_tensor_to_json(t) for t in program.inputs],
        "stages": [_stage_to_json(s) for s in program.stages],
        "outputs": list(program.outputs),
    }


def _tensor_to_json(t: Tensor) -> dict[str, Any]:
    return {"name": t.name, "shape": list(t.shape), "dtype": t.dtype.value, "const": t.const}


def _stage_to_json(s: Stage) -> dict[str, Any]:
    return {
        "name": s.name,
        "axes": [[a.name, a.extent] for a in s.axes],
        "reduce_axes": [[a.name, a.extent] for a in s.reduce_axes],
        "reducer": s.reducer.value if s.reducer else None,
        "body": expr_to_json(s.body),
        "dtype": s.dtype.value,
        "accumulate": s.accumulate.value,
    }


def expr_to_json(e: Expr) -> list[Any]:
    match e:
        case Const(value):
            return ["const", value if math.isfinite(value) else str(value)]
        case Load(tensor, index):
            return ["load", tensor, [_affine_to_json(i) for i in index]]
        case Unary(op, a):
            return ["unary", op.value, expr_to_json(a)]
        case Binary(op, a, b):
            return ["binary", op.value, expr_to_json(a), expr_to_json(b)]
        case Compare(op, a, b):
            return ["compare", op.value, expr_to_json(a), expr_to_json(b)]
        case Select(cond, a, b):
            return ["select", expr_to_json(cond), expr_to_json(a), expr_to_json(b)]
        case Within(conds, a, b):
            return ["within", [_affine_to_json(c) for c in conds], expr_to_json(a), expr_to_json(b)]


def _affine_to_json(e: Affine) -> list[Any]:
    return [e.const, *([name, c] for name, c in e.terms)]


def program_from_json(data: Any, limits: Limits = DEFAULT_LIMITS) -> Program:
    """The program, verified. Raises ``ProgramError`` for anything else, however hostile."""
    fields = _fields(data, "a program", ("version", "name", "inputs", "stages", "outputs"))
    if fields["version"] != PROGRAM_VERSION or isinstance(fields["version"], bool):
        raise ProgramError(f"program version must be {PROGRAM_VERSION}")
    program = Program(
        _text(fields["name"]),
        tuple(_tensor(t) for t in _list(fields["inputs"], limits.inputs)),
        tuple(_stage(s, limits) for s in _list(fields["stages"], limits.stages)),
        tuple(_text(o) for o in _list(fields["outputs"], limits.stages)),
    )
    verify_program(program, limits)
    return program


def _tensor(data: Any) -> Tensor:
    f = _fields(data, "an input", ("name", "shape", "dtype", "const"))
    if not isinstance(f["const"], bool):
        raise ProgramError("const must be true or false")
    shape = tuple(_integer(n) for n in _list(f["shape"], 64))
    return Tensor(_text(f["name"]), shape, _choice(DType, f["dtype"]), f["const"])


def _stage(data: Any, limits: Limits) -> Stage:
    names = ("name", "axes", "reduce_axes", "reducer", "body", "dtype", "accumulate")
    f = _fields(data, "a stage", names)
    return Stage(
        _text(f["name"]),
        tuple(_axis(a) for a in _list(f["axes"], limits.axes)),
        tuple(_axis(a) for a in _list(f["reduce_axes"], limits.axes)),
        None if f["reducer"] is None else _choice(Reducer, f["reducer"]),
        expr_from_json(f["body"], limits),
        _choice(DType, f["dtype"]),
        _choice(DType, f["accumulate"]),
    )


def _axis(data: Any) -> Axis:
    name, extent = _exactly(_list(data, 2), 2)
    return Axis(_text(name), _integer(extent))


def expr_from_json(data: Any, limits: Limits = DEFAULT_LIMITS) -> Expr:
    """The expression; its nesting is limited, all else is for ``verify_program`` to check."""
    return _expr(data, limits, limits.nesting)


def _expr(data: Any, limits: Limits, depth: int) -> Expr:
    if depth <= 0:
        raise LimitError(f"an expression is nested more than {limits.nesting} levels deep")
    kind, *rest = _exactly(_list(data, 4), None)

    def sub(e: Any) -> Expr:
        return _expr(e, limits, depth - 1)

    match kind, rest:
        case "const", [value]:
            return Const(_number(value))
        case "load", [tensor, index]:
            return Load(_text(tensor), tuple(_affine(i, limits) for i in _list(index, 64)))
        case "unary", [op, a]:
            return Unary(_choice(UnaryOp, op), sub(a))
        case "binary", [op, a, b]:
            return Binary(_choice(BinaryOp, op), sub(a), sub(b))
        case "compare", [op, a, b]:
            return Compare(_choice(CompareOp, op), sub(a), sub(b))
        case "select", [cond, a, b]:
            return Select(_compare(sub(cond)), sub(a), sub(b))
        case "within", [conds, a, b]:
            return Within(tuple(_affine(c, limits) for c in _list(conds, 64)), sub(a), sub(b))
        case _:
            raise ProgramError("an expression is const, load, unary, binary, compare, select or within")


def _compare(e: Expr) -> Compare:
    if not isinstance(e, Compare):
        raise ProgramError("the condition of select must be a comparison")
    return e


def _affine(data: Any, limits: Limits) -> Affine:
    const, *terms = _exactly(_list(data, limits.axes + 1), None)
    pairs = [_exactly(_list(t, 2), 2) for t in terms]
    return Affine(tuple((_text(n), _integer(c)) for n, c in pairs), _integer(const))


def _fields(data: Any, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != set(names):
        raise ProgramError(f"{what} is an object with exactly {', '.join(names)}")
    return data


def _list(data: Any, limit: int) -> list[Any]:
    if not isinstance(data, list | tuple):
        raise ProgramError("a list is needed here")
    if len(data) > limit:
        raise LimitError(f"a list has {len(data)} items; the limit here is {limit}")
    return list(data)


def _exactly(items: list[T], count: int | None) -> list[T]:
    """A list of this many items, or of at least one."""
    if not items or (count is not None and len(items) != count):
        raise ProgramError(f"a list has {len(items)} items, not {count or 'at least one'}")
    return items


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isascii():
        raise ProgramError("a name must be an ASCII string")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 1 << 63:
        raise ProgramError("a 64-bit integer is needed here")
    return value


def _number(value: Any) -> float:
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ProgramError("a number is needed here")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ProgramError('a number must be finite, or "inf", "-inf", "nan"')
    return number


def _choice(kind: type[E], value: Any) -> E:
    try:
        return kind(value)
    except (ValueError, TypeError):
        raise ProgramError(f"one of {', '.join(kind)} is needed here") from None
