"""Counts taken from a loop nest by walking through it, iteration by iteration: what closed forms are held to.

Unrolled loops are written out, vectorized ones taken as a whole; nothing is known here of sketches or knobs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tunesmith.ir.affine import Affine
from tunesmith.ir.expr import loads
from tunesmith.ir.loopnest import (
    Alloc,
    Buffer,
    For,
    If,
    Let,
    LetOp,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    Update,
    walk_statements,
)

__all__ = ["KINDS", "Pass", "StageCount", "count_nest"]

_LOOPED = (LoopKind.SERIAL, LoopKind.PARALLEL)
KINDS = ("vector", "scalar", "strided")
Address = tuple[str, int]
Lane = tuple[str, int]  # the variable of a vectorized loop, and its extent
Box = list[tuple[int, int]]


@dataclass
class Pass:
    """One run through unrolled code. ``loads`` by kind: addresses, each once; ``stores`` the same."""

    statements: int = 0
    vectors: int = 0
    loads: dict[str, set[Address]] = field(default_factory=lambda: {kind: set() for kind in KINDS})
    stores: set[Address] = field(default_factory=set)


@dataclass
class StageCount:
    """``points``: elements computed, lanes that are off included; ``statements``: scalars or vectors;
    ``vectors``: native ones issued. ``fullest``: the pass with most statements.

    ``boxes``: loop -> buffer -> extents of the largest box that one run of the loop touches; "" for the call.
    """

    points: int = 0
    statements: int = 0
    vectors: int = 0
    passes: int = 0
    fullest: Pass = field(default_factory=Pass)
    boxes: dict[str, dict[str, list[int]]] = field(default_factory=dict)


@dataclass
class _Walk:
    buffers: dict[str, Buffer]
    lanes: int
    reducing: frozenset[str]
    looped: set[int]
    found: dict[str, StageCount] = field(default_factory=dict)
    passes: dict[str, Pass] = field(default_factory=dict)
    running: list[tuple[str, dict[tuple[str, str], Box]]] = field(default_factory=list)

    def run(self, stmts: tuple[Stmt, ...], env: dict[str, int]) -> None:
        """Statements of which some hold loops; those that do not make a pass each, or together."""
        if not any(id(s) in self.looped for s in stmts):
            self.static_pass(stmts, env)
            return
        for s in stmts:
            self.one(s, env)

    def one(self, s: Stmt, env: dict[str, int]) -> None:
        match s:
            case _ if id(s) not in self.looped:
                self.static_pass((s,), env)
            case For(var, _, _, _, body):
                self.running.append((var, {}))
                for i in _trips(s, env):
                    self.run(body, {**env, var: i})
                self.leave()
            case Let(var, _, _, _, body):
                self.run(body, {**env, var: _let(s, env)})
            case If(conds, then, orelse):
                self.run(then if all(_at(c, env) >= 0 for c in conds) else orelse, env)
            case Alloc(buffer, body):
                self.buffers[buffer.name] = buffer
                self.run(body, env)

    def static_pass(self, stmts: tuple[Stmt, ...], env: dict[str, int]) -> None:
        self.passes = {}
        for s in stmts:
            self.static(s, env, None)
        for stage, mine in self.passes.items():
            count = self.found.setdefault(stage, StageCount())
            count.passes += 1
            if mine.statements > count.fullest.statements:
                count.fullest = mine

    def static(self, s: Stmt, env: dict[str, int], lane: Lane | None) -> None:
        match s:
            case For(var, extent, _, LoopKind.VECTOR, body):
                assert lane is None
                for x in body:
                    self.static(x, {**env, var: 0}, (var, extent))
            case For(var, _, _, _, body):
                for i in _trips(s, env):
                    for x in body:
                        self.static(x, {**env, var: i}, lane)
            case Let(var, _, _, _, body):
                for x in body:
                    self.static(x, {**env, var: _let(s, env)}, lane)
            case Alloc(buffer, body):
                self.buffers[buffer.name] = buffer
                for x in body:
                    self.static(x, env, lane)
            case If(conds, then, orelse) if lane is None or not any(c.coefficient(lane[0]) for c in conds):
                for x in then if all(_at(c, env) >= 0 for c in conds) else orelse:
                    self.static(x, env, lane)
            case If(_, then, _):  # a mask
                for x in then:
                    self.static(x, env, lane)
            case Store() | Update():
                self.statement(s, env, lane)

    def statement(self, s: Store | Update, env: dict[str, int], lane: Lane | None) -> None:
        if isinstance(s, Store) and s.buffer in self.reducing:
            return  # the identity, before the reduction
        vectors = 1 if lane is None else -(-lane[1] // self.lanes)
        count = self.found.setdefault(s.buffer, StageCount())
        count.points += 1 if lane is None else lane[1]
        count.statements += 1
        count.vectors += vectors
        mine = self.passes.setdefault(s.buffer, Pass())
        mine.statements += 1
        mine.vectors += vectors
        mine.stores.add((s.buffer, self.address(s.buffer, s.index, env)))
        self.touch(s.buffer, s.buffer, s.index, env, lane)
        for load in loads(s.value):
            self.touch(s.buffer, load.tensor, load.index, env, lane)
            stride = 0 if lane is None else self.stride(load.tensor, load.index, lane[0])
            kind = {0: "scalar", 1: "vector"}.get(stride, "strided")
            mine.loads[kind].add((load.tensor, self.address(load.tensor, load.index, env)))

    def touch(
        self, stage: str, buffer: str, index: tuple[Affine, ...], env: dict[str, int], lane: Lane | None
    ) -> None:
        """Widen the box of the loop that is running; lanes beyond the end of a buffer are off."""
        box: Box = []
        for i, extent in zip(index, self.buffers[buffer].shape, strict=True):
            first = _at(i, env)
            last = first + (i.coefficient(lane[0]) * (lane[1] - 1) if lane else 0)
            box.append((first, min(last, extent - 1)))
        _widen(self.running[-1][1], (stage, buffer), box)

    def leave(self) -> None:
        """The end of a loop: its boxes count if they are the largest so far, and are part of those around."""
        loop, boxes = self.running.pop()
        for (stage, buffer), box in boxes.items():
            mine = self.found[stage].boxes.setdefault(loop, {})
            extents = [high - low + 1 for low, high in box]
            mine[buffer] = [max(a, b) for a, b in zip(extents, mine.get(buffer, extents), strict=True)]
            if self.running:
                _widen(self.running[-1][1], (stage, buffer), box)

    def address(self, buffer: str, index: tuple[Affine, ...], env: Mapping[str, int]) -> int:
        strides = self.buffers[buffer].strides
        return sum(_at(i, env) * s for i, s in zip(index, strides, strict=True))

    def stride(self, buffer: str, index: tuple[Affine, ...], var: str) -> int:
        strides = self.buffers[buffer].strides
        return sum(i.coefficient(var) * s for i, s in zip(index, strides, strict=True))


def count_nest(nest: LoopNest, lanes: int) -> dict[str, StageCount]:
    """What every stage and packing copy of a nest does in one call, by the buffer that it fills."""
    reducing = frozenset(s.buffer for s in walk_statements(nest.body) if isinstance(s, Update))
    walk = _Walk({b.name: b for b in nest.buffers}, lanes, reducing, _looped(nest.body))
    walk.running.append(("", {}))
    walk.run(nest.body, {})
    walk.leave()
    return walk.found


def _widen(boxes: dict[tuple[str, str], Box], key: tuple[str, str], more: Box) -> None:
    box = boxes.get(key)
    boxes[key] = (
        more if box is None else [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(box, more, strict=True)]
    )


def _looped(stmts: tuple[Stmt, ...]) -> set[int]:
    """Identities of the statements that hold a loop of the machine code."""
    return {
        id(s)
        for s in walk_statements(stmts)
        if any(isinstance(x, For) and x.kind in _LOOPED for x in walk_statements((s,)))
    }


def _at(form: Affine, env: Mapping[str, int]) -> int:
    return form.const + sum(c * env[n] for n, c in form.terms)


def _trips(s: For, env: Mapping[str, int]) -> Iterator[int]:
    start = max([0, *(_at(f, env) for f in s.starts)])
    return iter(range(start, min([s.extent, *(_at(f, env) for f in s.limits)])))


def _let(s: Let, env: Mapping[str, int]) -> int:
    value = _at(s.value, env)
    match s.op:
        case LetOp.DIV:
            return value // s.operand
        case LetOp.MOD:
            return value % s.operand
        case LetOp.MIN:
            return min(value, s.operand)
