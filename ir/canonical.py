"""The form of a program that does not depend on how it was written, and hashes over it.

Names of axes, tensors and stages, the order of commutative operands, of reduce axes, of conditions and of
independent stages, comparisons written the other way round, unused stages, stages computed twice and
constant arithmetic do not matter. Order and types of inputs, ``const`` and the order of outputs do.

Each stage gets a key: a hash of its text, in which loads name the keys of the stages they read. So keys
do not depend on names, and operands and reduce axes can be ordered by text.
"""

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tunesmith.ir.affine import Affine, Range, var
from tunesmith.ir.bounds import axis_ranges, implied, tighten
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Within,
    children,
    loads,
    rebuild,
    substitute,
    transform_loads,
)
from tunesmith.ir.fold import binary, unary
from tunesmith.ir.program import Axis, Program, Stage

__all__ = ["anatomy", "canonical", "extents", "structure_hash", "workload_hash"]

_HASH_CHARS = 32
_COMMUTATIVE = (BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MAX, BinaryOp.MIN)
_SYMMETRIC = (CompareOp.EQ, CompareOp.NE)
_MIRRORED = {CompareOp.GT: CompareOp.LT, CompareOp.GE: CompareOp.LE}
_MAX_ORDERS = 24  # orders of reduce axes tried where their roles in the body look alike


def canonical(program: Program) -> Program:
    """The same computation with inputs ``x0…``, stages ``t0…`` in the order outputs need them, axes ``i0…``
    and ``r0…``. Programs that differ only in what the module's text lists become equal."""
    keyed = _keyed(program, _Writer(exact=True))
    by_key = {key: stage for key, stage, _ in keyed.values()}
    outputs = [keyed[o][0] for o in program.outputs]
    names = {f"x{n}": f"x{n}" for n in range(len(program.inputs))}
    order = list(_needed(outputs, by_key))
    names |= {key: f"t{n}" for n, key in enumerate(order)}
    inputs = tuple(replace(t, name=f"x{n}") for n, t in enumerate(program.inputs))
    stages = tuple(_renamed(by_key[key], names[key], names) for key in order)
    return Program("program", inputs, stages, tuple(names[o] for o in outputs))


def workload_hash(program: Program) -> str:
    """32 hex digits, equal for programs of one canonical form."""
    return _program_hash(program, _Writer(exact=True))


def structure_hash(program: Program) -> str:
    """Like ``workload_hash`` with extents left out, and with them what comes from them: the constants in
    index expressions and conditions, and constants that scale the result of a reduction (means)."""
    return _program_hash(program, _Writer(exact=False, reductions=_reductions(program)))


def anatomy(program: Program) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The needed stages with the names of their axes, in an order that programs of one structure share: what
    stands at one place in two of them is the same, whatever it is called there. Names of canonical forms may
    differ, since extents take part in the order behind them."""
    keyed = _keyed(program, _Writer(exact=False, reductions=_reductions(program)))
    by_key = {key: stage for key, stage, _ in keyed.values()}
    order = list(_needed([keyed[o][0] for o in program.outputs], by_key))
    return tuple((name, axes) for k in order for name, (key, _, axes) in keyed.items() if key == k)


def extents(program: Program) -> tuple[int, ...]:
    """Of all axes, in the order of ``anatomy``: where a program stands among those of its structure."""
    stages = {s.name: {a.name: a.extent for a in s.all_axes} for s in program.stages}
    return tuple(stages[stage][axis] for stage, axes in anatomy(program) for axis in axes)


def _program_hash(program: Program, writer: "_Writer") -> str:
    keyed = _keyed(program, writer)
    inputs = [f"{t.dtype}{writer.extents(t.shape)}{' const' * t.const}" for t in program.inputs]
    return _digest("\n".join([*inputs, "->", *(keyed[o][0] for o in program.outputs)]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]


def _keyed(program: Program, writer: "_Writer") -> dict[str, tuple[str, Stage, tuple[str, ...]]]:
    """For each stage its key, itself with canonical axes and loads that name keys, and what its axes were
    called, in that order."""
    keys = {t.name: f"x{n}" for n, t in enumerate(program.inputs)}
    outputs = {name: n for n, name in enumerate(program.outputs)}
    out: dict[str, tuple[str, Stage, tuple[str, ...]]] = {}
    for s in program.stages:
        stage, text, axes = _canonical_stage(s, keys, writer)
        # An output keeps a key of its own, so that two equal ones stay two.
        keys[s.name] = _digest(f"{text} out{outputs[s.name]}" if s.name in outputs else text)
        writer.note_reduction(s.name, keys[s.name])
        out[s.name] = keys[s.name], stage, axes
    return out


def _canonical_stage(
    s: Stage, keys: Mapping[str, str], writer: "_Writer"
) -> tuple[Stage, str, tuple[str, ...]]:
    body = _normal(s.body, axis_ranges(s.all_axes))
    body = transform_loads(body, lambda load: Load(keys[load.tensor], load.index))
    spatial = {a.name: var(f"i{n}") for n, a in enumerate(s.axes)}
    body = substitute(body, spatial)
    best: tuple[str, tuple[Axis, ...], Expr] | None = None
    for order in _orders(body, s.reduce_axes, writer):
        ordered, text = writer.ordered(substitute(body, {a.name: var(f"r{n}") for n, a in enumerate(order)}))
        extents = writer.extents([a.extent for a in order])
        text = f"{extents} {text}"
        if best is None or text < best[0]:
            best = text, order, ordered
    assert best is not None
    text, order, ordered = best
    axes = tuple(Axis(f"i{n}", a.extent) for n, a in enumerate(s.axes))
    reduce_axes = tuple(Axis(f"r{n}", a.extent) for n, a in enumerate(order))
    stage = Stage("", axes, reduce_axes, s.reducer, ordered, s.dtype, s.accumulate)
    names = tuple(a.name for a in (*s.axes, *order))
    return stage, f"{s.dtype} {s.accumulate} {writer.extents(s.shape)} {s.reducer} {text}", names


def _orders(body: Expr, axes: tuple[Axis, ...], writer: "_Writer") -> Iterator[tuple[Axis, ...]]:
    """Orders of the reduce axes: those of near memory last, then by their role in the body; where roles are
    alike, every order."""

    def role(axis: Axis) -> tuple[int, str]:
        marks = {a.name: var("?" if a != axis else "*") for a in axes}
        text = f"{writer.extents([axis.extent])} {writer.ordered(substitute(body, marks))[1]}"
        return -_distance(body, axis.name), text

    if len(axes) < 2:
        yield axes
        return
    roles = sorted((role(a), n) for n, a in enumerate(axes))
    groups = [[axes[n] for _, n in group] for _, group in itertools.groupby(roles, key=lambda r: r[0])]
    choices = itertools.product(*(itertools.permutations(g) for g in groups))
    for choice in itertools.islice(choices, _MAX_ORDERS):
        yield tuple(a for group in choice for a in group)


def _distance(body: Expr, axis: str) -> int:
    """How many dimensions from the last the axis moves an index, in the load where that is fewest."""
    places = (n for load in loads(body) for n, i in enumerate(reversed(load.index)) if i.coefficient(axis))
    return min(places, default=0)


def _normal(e: Expr, ranges: Mapping[str, Range], conds: tuple[Affine, ...] = ()) -> Expr:
    """Constants folded, comparisons mirrored to < and <=, conditions decided that always or never hold."""
    if isinstance(e, Within):
        return _normal_within(e, ranges, conds)
    match rebuild(e, tuple(_normal(c, ranges, conds) for c in children(e))):
        case Unary(op, a):
            return unary(op, a)
        case Binary(BinaryOp.SUB, a, Const(value)):
            return binary(BinaryOp.ADD, a, Const(-value))
        case Binary(op, a, b):
            return binary(op, a, b)
        case Compare(op, a, b) if op in _MIRRORED:
            return Compare(_MIRRORED[op], b, a)
        case other:
            return other


def _normal_within(e: Within, ranges: Mapping[str, Range], conds: tuple[Affine, ...]) -> Expr:
    inner = tighten(conds, ranges) or ranges
    needed = tuple(c for c in dict.fromkeys(e.conds) if not implied(c, conds, inner))
    if not needed:
        return _normal(e.a, ranges, conds)
    if tighten(conds + needed, ranges) is None:
        return _normal(e.b, ranges, conds)
    return Within(needed, _normal(e.a, ranges, conds + needed), _normal(e.b, ranges, conds))


@dataclass
class _Writer:
    """Writes expressions as text. ``exact`` keeps extents and the constants that come from them."""

    exact: bool
    reductions: frozenset[str] = frozenset()  # names, then also keys, of stages that reduce

    def note_reduction(self, name: str, key: str) -> None:
        if name in self.reductions:
            self.reductions |= {key}

    def extents(self, extents: Sequence[int]) -> str:
        return str(list(extents)) if self.exact else f"[{len(extents)}]"

    def affine(self, e: Affine) -> str:
        return str(e if self.exact else Affine(e.terms))

    def ordered(self, e: Expr) -> tuple[Expr, str]:
        """The expression with commutative operands and conditions by their text, and its text."""
        parts = [self.ordered(c) for c in children(e)]
        if self._is_symmetric(e):
            parts.sort(key=lambda part: part[1])
        if isinstance(e, Within):
            e = Within(tuple(sorted(e.conds, key=str)), e.a, e.b)
        texts = [text for _, text in parts]
        if not self.exact and isinstance(e, Binary) and e.op in (BinaryOp.MUL, BinaryOp.DIV):
            texts = self._without_scale(parts)
        return rebuild(e, tuple(part for part, _ in parts)), f"({self._head(e)} {' '.join(texts)})"

    def _is_symmetric(self, e: Expr) -> bool:
        match e:
            case Binary(op, _, _):
                return op in _COMMUTATIVE
            case Compare(op, _, _):
                return op in _SYMMETRIC
            case _:
                return False

    def _without_scale(self, parts: list[tuple[Expr, str]]) -> list[str]:
        scaled = any(isinstance(p, Load) and p.tensor in self.reductions for p, _ in parts)
        return ["scale" if scaled and isinstance(p, Const) else text for p, text in parts]

    def _head(self, e: Expr) -> str:
        match e:
            case Const(value):
                return repr(value)
            case Load(tensor, index):
                return f"{tensor}[{', '.join(map(self.affine, index))}]"
            case Unary(op, _) | Binary(op, _, _) | Compare(op, _, _):
                return op.value
            case Select():
                return "select"
            case Within(conds, _, _):
                return f"within {sorted(map(self.affine, conds))}"


def _reductions(program: Program) -> frozenset[str]:
    return frozenset(s.name for s in program.stages if s.reducer is not None)


def _needed(outputs: Sequence[str], stages: Mapping[str, Stage]) -> Iterator[str]:
    """Keys of the stages that the outputs need, each after those it reads, in the order they are read."""
    seen: set[str] = set()
    stack = [(key, False) for key in reversed(outputs)]
    while stack:
        key, ready = stack.pop()
        if ready:
            yield key
        elif key in stages and key not in seen:
            seen.add(key)
            stack.append((key, True))
            stack += [(load.tensor, False) for load in reversed(loads(stages[key].body))]


def _renamed(stage: Stage, name: str, names: Mapping[str, str]) -> Stage:
    body = transform_loads(stage.body, lambda load: Load(names[load.tensor], load.index))
    return replace(stage, name=name, body=body)
