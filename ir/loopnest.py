"""Loop nests: how it is computed, explicit to the last loop and buffer.

    LoopNest  = name, buffers: Buffer…, prepare: Stmt…, body: Stmt…
    Buffer    = name, shape, dtype, role, const?
    Stmt      = For(var, extent, limits: Affine…, kind, body,   var from max(0, starts…) to below
                    starts: Affine…)                            min(extent, limits…), maybe never
              | Let(var, op, value: Affine, operand, body)      var = value // operand, value % operand
                                                                or min(value, operand), within body
              | If(conds: Affine…, then, orelse)                then where every condition is >= 0
              | Alloc(buffer, body)                             a local buffer that lives as long as body
              | Store(buffer, index: Affine…, value: Expr)
              | Update(buffer, index, reducer, value)           buffer[index] = reducer(buffer[index], value)

Values are expressions whose loads name buffers and whose indices are affine in the variables in scope.
``prepare`` packs constant operands once, ahead of ``body``. At most one loop around a statement is
vectorized; its variable does not occur in limits and starts of loops inside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from tunesmith.ir.affine import Affine
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import (
    Binary,
    Compare,
    Const,
    Expr,
    Load,
    Reducer,
    Select,
    Unary,
    Within,
    transform_loads,
)

__all__ = [
    "Alloc",
    "Buffer",
    "For",
    "If",
    "Let",
    "LetOp",
    "LoopKind",
    "LoopNest",
    "Role",
    "Stmt",
    "Store",
    "Update",
    "format_expr",
    "format_nest",
    "rename_buffers",
    "walk_statements",
]


class Role(StrEnum):
    INPUT = "input"
    PACKED = "packed"  # a constant operand in another order, written by prepare
    OUTPUT = "output"
    TEMP = "temp"  # whole intermediate in the workspace
    LOCAL = "local"  # lives inside a loop, on the stack or in registers


class LoopKind(StrEnum):
    SERIAL = "serial"
    UNROLL = "unroll"
    VECTOR = "vector"
    PARALLEL = "parallel"


class LetOp(StrEnum):
    DIV = "//"
    MOD = "%"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class Buffer:
    name: str
    shape: tuple[int, ...]
    dtype: DType
    role: Role
    const: bool = False

    @property
    def elements(self) -> int:
        n = 1
        for e in self.shape:
            n *= e
        return n

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.size_bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Row-major strides in elements."""
        out: list[int] = []
        n = 1
        for e in reversed(self.shape):
            out.append(n)
            n *= e
        return tuple(reversed(out))


@dataclass(frozen=True, slots=True)
class For:
    var: str
    extent: int
    limits: tuple[Affine, ...]
    kind: LoopKind
    body: "tuple[Stmt, ...]"
    starts: tuple[Affine, ...] = ()


@dataclass(frozen=True, slots=True)
class Let:
    var: str
    op: LetOp
    value: Affine
    operand: int
    body: "tuple[Stmt, ...]"


@dataclass(frozen=True, slots=True)
class If:
    conds: tuple[Affine, ...]
    then: "tuple[Stmt, ...]"
    orelse: "tuple[Stmt, ...]" = ()


@dataclass(frozen=True, slots=True)
class Alloc:
    buffer: Buffer
    body: "tuple[Stmt, ...]"


@dataclass(frozen=True, slots=True)
class Store:
    """``stream``: past the caches, for results larger than they are."""

    buffer: str
    index: tuple[Affine, ...]
    value: Expr
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    buffer: str
    index: tuple[Affine, ...]
    reducer: Reducer
    value: Expr


Stmt: TypeAlias = For | Let | If | Alloc | Store | Update


@dataclass(frozen=True, slots=True)
class LoopNest:
    """``buffers`` holds all but the local ones: inputs, packed, outputs, temps, in this order."""

    name: str
    buffers: tuple[Buffer, ...]
    prepare: tuple[Stmt, ...]
    body: tuple[Stmt, ...]

    def __str__(self) -> str:
        return format_nest(self)


def rename_buffers(nest: LoopNest, names: Mapping[str, str]) -> LoopNest:
    """The nest with some of its outer buffers called otherwise; a local one that has a new name already in
    use gets an underscore."""
    mine = {b.name for b in nest.buffers}
    local = {s.buffer.name for s in walk_statements(nest.prepare + nest.body) if isinstance(s, Alloc)}
    full = {n: f"{n}_" for n in (mine | local) - set(names) if n in names.values()} | dict(names)

    def expression(load: Load) -> Load:
        return Load(full.get(load.tensor, load.tensor), load.index)

    def rename(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(one(s) for s in stmts)

    def one(s: Stmt) -> Stmt:
        match s:
            case If(_, then, orelse):
                return replace(s, then=rename(then), orelse=rename(orelse))
            case Alloc(b, body):
                return Alloc(replace(b, name=full.get(b.name, b.name)), rename(body))
            case For(body=body) | Let(body=body):
                return replace(s, body=rename(body))
            case _:
                value = transform_loads(s.value, expression)
                return replace(s, buffer=full.get(s.buffer, s.buffer), value=value)

    buffers = tuple(replace(b, name=full.get(b.name, b.name)) for b in nest.buffers)
    return LoopNest(nest.name, buffers, rename(nest.prepare), rename(nest.body))


def walk_statements(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for s in stmts:
        yield s
        match s:
            case For(body=body) | Let(body=body) | Alloc(body=body):
                yield from walk_statements(body)
            case If(_, then, orelse):
                yield from walk_statements(then)
                yield from walk_statements(orelse)
            case _:
                pass


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _conds(conds: tuple[Affine, ...]) -> str:
    return " and ".join(f"{c} >= 0" for c in conds)


def format_expr(e: Expr) -> str:
    match e:
        case Const(value):
            return repr(value)
        case Load(tensor, index):
            return f"{tensor}[{', '.join(map(str, index))}]"
        case Unary(op, a):
            return f"{op}({format_expr(a)})"
        case Binary(op, a, b) if op in _INFIX:
            return f"({format_expr(a)} {_INFIX[op]} {format_expr(b)})"
        case Binary(op, a, b):
            return f"{op}({format_expr(a)}, {format_expr(b)})"
        case Compare(op, a, b):
            return f"{format_expr(a)} {_COMPARE[op]} {format_expr(b)}"
        case Select(c, a, b):
            return f"where({format_expr(c)}, {format_expr(a)}, {format_expr(b)})"
        case Within(conds, a, b):
            return f"within({_conds(conds)}, {format_expr(a)}, {format_expr(b)})"


def _format(stmts: tuple[Stmt, ...], indent: str) -> Iterator[str]:
    inner = indent + "  "
    for s in stmts:
        match s:
            case For(v, extent, limits, kind, body):
                bound = f"min({', '.join(map(str, (extent, *limits)))})" if limits else str(extent)
                bound = f"max({', '.join(map(str, (0, *s.starts)))}) … {bound}" if s.starts else bound
                yield f"{indent}{'for' if kind is LoopKind.SERIAL else kind} {v} in {bound}:"
                yield from _format(body, inner)
            case Let(v, op, value, operand, body):
                text = f"min({value}, {operand})" if op is LetOp.MIN else f"({value}) {op} {operand}"
                yield f"{indent}{v} = {text}"
                yield from _format(body, indent)
            case If(conds, then, orelse):
                yield f"{indent}if {_conds(conds)}:"
                yield from _format(then, inner)
                if orelse:
                    yield f"{indent}else:"
                    yield from _format(orelse, inner)
            case Alloc(b, body):
                yield f"{indent}{b.name}: {b.dtype}{list(b.shape)} {b.role}"
                yield from _format(body, indent)
            case Store(buffer, index, value, stream):
                arrow = "=stream=" if stream else "="
                yield f"{indent}{buffer}[{', '.join(map(str, index))}] {arrow} {format_expr(value)}"
            case Update(buffer, index, reducer, value):
                yield f"{indent}{buffer}[{', '.join(map(str, index))}] {reducer}= {format_expr(value)}"


def format_nest(nest: LoopNest) -> str:
    """Readable text of a loop nest, one statement a line."""
    lines = [f"nest {nest.name}"]
    lines += [
        f"  {b.name}: {'const ' if b.const else ''}{b.dtype}{list(b.shape)} {b.role}" for b in nest.buffers
    ]
    if nest.prepare:
        lines += ["prepare:", *_format(nest.prepare, "  ")]
    return "\n".join([*lines, "body:", *_format(nest.body, "  ")]) + "\n"
