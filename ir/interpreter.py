"""Runs loop nests one element at a time, to check what a schedule was lowered to without a compiler.

Strict where compiled code is silent: an index outside its dimension, an element read before it was
written, a store to an input, a packed buffer written outside ``prepare`` all raise and name the statement.
Loop kinds do not matter. Values are computed in float64 and rounded to the buffer's type when stored.
"""

import array
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tunesmith.ir.affine import Affine
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Binary, Compare, Const, Expr, Load, Select, Unary, Within
from tunesmith.ir.loopnest import (
    Alloc,
    Buffer,
    For,
    If,
    Let,
    LetOp,
    LoopKind,
    LoopNest,
    Role,
    Stmt,
    Store,
    Update,
    format_expr,
)
from tunesmith.ir.scalar_math import BINARY, COMPARE, REDUCE, UNARY

__all__ = ["NestError", "run_nest"]

Env = dict[str, int]
Action = Callable[[Env], None]

_CODE: dict[DType, Literal["f", "d"]] = {DType.F32: "f", DType.F64: "d"}

_LET: dict[LetOp, Callable[[int, int], int]] = {
    LetOp.DIV: lambda a, b: a // b,
    LetOp.MOD: lambda a, b: a % b,
    LetOp.MIN: min,
}


class NestError(IndexError):
    """The nest does something that compiled code must not; the message names buffer and statement."""


def run_nest(nest: LoopNest, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Outputs by name; elements that the nest never writes are NaN. Raises ``NestError``."""
    machine = _Machine()
    for b in nest.buffers:
        machine.add(b, inputs.get(b.name) if b.role is Role.INPUT else None)
    machine.preparing = True
    machine.run(nest.prepare)
    machine.preparing = False
    machine.run(nest.body)
    return {b.name: machine.result(b.name) for b in nest.buffers if b.role is Role.OUTPUT}


@dataclass(slots=True)
class _Memory:
    buffer: Buffer
    data: "array.array[float]"
    written: bytearray


@dataclass(slots=True)
class _Machine:
    """Statements become closures over an environment of variables, which is several times faster than
    walking them anew in every iteration."""

    memory: dict[str, _Memory] = field(default_factory=dict)
    preparing: bool = False

    def add(self, b: Buffer, content: NDArray[Any] | None) -> None:
        code = _CODE[b.dtype]
        if b.role is not Role.INPUT:
            poison = array.array(code, [math.nan]) * b.elements
            self.memory[b.name] = _Memory(b, poison, bytearray(b.elements))
            return
        if content is None or tuple(content.shape) != b.shape:
            raise NestError(f"input {b.name} needs an array of shape {b.shape}")
        data = array.array(code, np.ascontiguousarray(content, b.dtype.numpy).tobytes())
        self.memory[b.name] = _Memory(b, data, bytearray(b"\x01") * b.elements)

    def result(self, name: str) -> NDArray[Any]:
        m = self.memory[name]
        return np.array(m.data, m.buffer.dtype.numpy).reshape(m.buffer.shape)

    def run(self, stmts: tuple[Stmt, ...]) -> None:
        self._block(stmts, None)({})

    # -- statements

    def _block(self, stmts: tuple[Stmt, ...], vector: str | None) -> Action:
        actions = [self._statement(s, vector) for s in stmts]
        if len(actions) == 1:
            return actions[0]

        def run(env: Env) -> None:
            for a in actions:
                a(env)

        return run

    def _statement(self, s: Stmt, vector: str | None) -> Action:
        match s:
            case For():
                return self._for(s, vector)
            case Let():
                return self._let(s, vector)
            case If(conds, then, orelse):
                holds = _all_hold(conds)
                yes, no = self._block(then, vector), self._block(orelse, vector)
                return lambda env: yes(env) if holds(env) else no(env)
            case Alloc():
                return self._alloc(s, vector)
            case Store():
                return self._store(s)
            case Update():
                return self._update(s)

    def _for(self, s: For, vector: str | None) -> Action:
        if s.kind is LoopKind.VECTOR:
            if vector is not None:
                raise NestError(f"loop {s.var} is vectorized inside vectorized loop {vector}")
            vector = s.var
        elif vector is not None and any(bound.coefficient(vector) for bound in s.limits + s.starts):
            raise NestError(f"the limit of loop {s.var} depends on vectorized {vector}")
        starts, limits = ([_affine(e) for e in forms] for forms in (s.starts, s.limits))
        body = self._block(s.body, vector)
        var, extent = s.var, s.extent

        def run(env: Env) -> None:
            start = max(0, *(f(env) for f in starts)) if starts else 0
            for i in range(start, min(extent, *(f(env) for f in limits)) if limits else extent):
                env[var] = i
                body(env)

        return run

    def _let(self, s: Let, vector: str | None) -> Action:
        value, body = _affine(s.value), self._block(s.body, vector)
        var, operand, compute = s.var, s.operand, _LET[s.op]

        def run(env: Env) -> None:
            env[var] = compute(value(env), operand)
            body(env)

        return run

    def _alloc(self, s: Alloc, vector: str | None) -> Action:
        if s.buffer.name in self.memory:
            raise NestError(f"buffer {s.buffer.name} is allocated twice")
        self.add(s.buffer, None)
        body = self._block(s.body, vector)
        memory = self.memory.pop(s.buffer.name)
        poison = memory.data[:]

        def run(env: Env) -> None:
            memory.data[:] = poison
            memory.written[:] = bytes(len(poison))
            body(env)

        return run

    def _store(self, s: Store) -> Action:
        m, text = self._target(s), _text(s)
        at, value = _offset(m.buffer, s.index, text), self._value(s.value, text)
        data, written = m.data, m.written

        def run(env: Env) -> None:
            n = at(env)
            data[n] = value(env)
            written[n] = 1

        return run

    def _update(self, s: Update) -> Action:
        m, text = self._target(s), _text(s)
        at, value, join = _offset(m.buffer, s.index, text), self._value(s.value, text), REDUCE[s.reducer]
        data, written, name = m.data, m.written, s.buffer

        def run(env: Env) -> None:
            n = at(env)
            if not written[n]:
                raise NestError(f"{name} is updated before it is written, at offset {n}: {text}")
            data[n] = join(data[n], value(env))

        return run

    def _target(self, s: Store | Update) -> _Memory:
        m = self._find(s.buffer, _text(s))
        role = m.buffer.role
        if role is Role.INPUT or (role is Role.PACKED) > self.preparing:
            raise NestError(f"{s.buffer} is {role} and must not be written here: {_text(s)}")
        return m

    def _find(self, name: str, text: str) -> _Memory:
        if name not in self.memory:
            raise NestError(f"buffer {name} does not exist here: {text}")
        return self.memory[name]

    # -- values

    def _value(self, e: Expr, text: str) -> Callable[[Env], float]:
        match e:
            case Const(value):
                return lambda env: value
            case Load():
                return self._load(e, text)
            case Unary(op, a):
                f, x = UNARY[op], self._value(a, text)
                return lambda env: f(x(env))
            case Binary(op, a, b):
                g, x, y = BINARY[op], self._value(a, text), self._value(b, text)
                return lambda env: g(x(env), y(env))
            case Compare():
                raise NestError(f"a comparison is no value: {text}")
            case Select(Compare(op, a, b), yes, no):
                c, x, y = COMPARE[op], self._value(a, text), self._value(b, text)
                p, q = self._value(yes, text), self._value(no, text)
                return lambda env: p(env) if c(x(env), y(env)) else q(env)
            case Within(conds, a, b):
                holds, x, y = _all_hold(conds), self._value(a, text), self._value(b, text)
                return lambda env: x(env) if holds(env) else y(env)

    def _load(self, e: Load, text: str) -> Callable[[Env], float]:
        m = self._find(e.tensor, text)
        if self.preparing and m.buffer.role is Role.INPUT and not m.buffer.const:
            raise NestError(f"prepare reads {e.tensor}, which is not constant: {text}")
        at, data, written, name = _offset(m.buffer, e.index, text), m.data, m.written, e.tensor

        def run(env: Env) -> float:
            n = at(env)
            if not written[n]:
                raise NestError(f"{name} is read before it is written, at offset {n}: {text}")
            return data[n]

        return run


def _affine(e: Affine) -> Callable[[Env], int]:
    const, terms = e.const, e.terms
    if not terms:
        return lambda env: const
    if len(terms) == 1:
        ((name, c),) = terms
        return lambda env: const + c * env[name]
    return lambda env: const + sum([c * env[name] for name, c in terms])


def _all_hold(conds: tuple[Affine, ...]) -> Callable[[Env], bool]:
    parts = [_affine(c) for c in conds]
    return lambda env: all([p(env) >= 0 for p in parts])


def _offset(b: Buffer, index: tuple[Affine, ...], text: str) -> Callable[[Env], int]:
    """Where the element lies, after checking every dimension."""
    if len(index) != len(b.shape):
        raise NestError(f"{b.name} has {len(b.shape)} dimensions, not {len(index)}: {text}")
    dims = [(_affine(i), n, stride) for i, n, stride in zip(index, b.shape, b.strides, strict=True)]

    def offset(env: Env) -> int:
        at = 0
        for f, n, stride in dims:
            i = f(env)
            if not 0 <= i < n:
                where = ", ".join(str(g(env)) for g, _, _ in dims)
                raise NestError(f"{b.name}[{where}] is outside of shape {b.shape}: {text}, where {env}")
            at += i * stride
        return at

    return offset


def _text(s: Store | Update) -> str:
    sign = "=" if isinstance(s, Store) else f"{s.reducer}="
    return f"{s.buffer}[{', '.join(map(str, s.index))}] {sign} {format_expr(s.value)}"
