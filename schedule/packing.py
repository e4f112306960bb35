"""Packing: the loops that copy an operand into the order in which its reader goes through it."""

from dataclasses import dataclass

from tunesmith.ir.affine import Affine, constant, interval, var
from tunesmith.ir.expr import Const, Expr, Load, Within, loads, substitute
from tunesmith.ir.loopnest import Buffer, For, If, LoopKind, Role, Stmt, Store
from tunesmith.ir.program import Stage
from tunesmith.schedule.regions import scope_around
from tunesmith.schedule.scope import Copy, Scope
from tunesmith.schedule.state import State
from tunesmith.schedule.steps import PREPARE, ROOT, IllegalStep, Pack

__all__ = ["pack_operand"]

_ROLES = {PREPARE: Role.PACKED, ROOT: Role.TEMP}


def pack_operand(state: State, scope: Scope, pack: Pack, lanes: int) -> tuple[Copy, Buffer, tuple[Stmt, ...]]:
    """What is packed, the buffer it goes to, and the loops that fill it; zeros where the operand ends.

    ``lanes`` is the longest loop that may be vectorized. Raises IllegalStep.
    """
    reader = state.program.stage(pack.stage)
    bounds = scope_around(state, scope, reader).bounds()
    extents = [bounds[loop].extent for loop in pack.loops]
    names = {loop: f"{pack.result}.{n}" for n, loop in enumerate(pack.loops)}
    copy = Copy(pack, tuple(extents), _index(state, scope, pack))
    index = tuple(i.substitute({x: var(n) for x, n in names.items()}) for i in copy.index)
    known = scope.known
    for loop, extent in zip(pack.loops, extents, strict=True):
        known = known.with_range(names[loop], 0, extent - 1)
    tensor = state.program.tensors[pack.tensor]
    forms = [f for i, n in zip(index, tensor.shape, strict=True) for f in (i, constant(n - 1) - i)]
    conds = tuple(f for f in forms if not known.proves(f))
    value: Expr = Load(pack.tensor, index)
    if conds:
        value = Within(conds, value, Const(0.0))
    store = Store(pack.result, tuple(var(names[x]) for x in pack.loops), value)
    loops = [_Loop(names[x], n) for x, n in zip(pack.loops, extents, strict=True)]
    parallel = pack.at in _ROLES and _is_parallel(state, reader)
    stmts = _transposing(loops, index, store, conds, parallel)
    if stmts is None:
        stmts = _plain(loops, index, store, parallel, lanes)
    role = _ROLES.get(pack.at, Role.LOCAL)
    return copy, Buffer(pack.result, copy.extents, tensor.dtype, role), stmts


@dataclass(frozen=True, slots=True)
class _Loop:
    name: str
    extent: int


def _around(loops: list[_Loop], body: tuple[Stmt, ...], parallel: bool) -> tuple[Stmt, ...]:
    for n, loop in reversed(list(enumerate(loops))):
        kind = LoopKind.PARALLEL if n == 0 and parallel else LoopKind.SERIAL
        body = (For(loop.name, loop.extent, (), kind, body),)
    return body


def _plain(
    loops: list[_Loop], index: tuple[Affine, ...], store: Store, parallel: bool, lanes: int
) -> tuple[Stmt, ...]:
    """Loops in the order of the copy, the last vectorized where the operand lies close along it."""
    *outer, last = loops
    if not _is_contiguous(index, last.name) or not 1 < last.extent <= lanes:
        return _around(loops, (store,), parallel and bool(outer))
    body: tuple[Stmt, ...] = (For(last.name, last.extent, (), LoopKind.VECTOR, (store,)),)
    return _around(outer, body, parallel)


def _transposing(
    loops: list[_Loop], index: tuple[Affine, ...], store: Store, conds: tuple[Affine, ...], parallel: bool
) -> tuple[Stmt, ...] | None:
    """Square tiles of the copy's last loop and of the one along which the operand lies close; None where
    there is no such pair. Tiles that reach past the operand, and what is left over, go element by element.
    """
    *others, last = loops
    size = last.extent
    along = next((x for x in others if _is_contiguous(index, x.name) and x.extent >= size), None)
    if size not in (4, 8, 16) or along is None or not any(i.coefficient(last.name) for i in index):
        return None
    outer = [x for x in others if x is not along]
    tile, step = f"{along.name}.0", f"{along.name}.1"
    whole, left = divmod(along.extent, size)

    def moved(to: Affine, stmt: Store) -> Store:
        at = {along.name: to}
        return Store(stmt.buffer, tuple(i.substitute(at) for i in stmt.index), substitute(stmt.value, at))

    place = var(tile) * size + var(step)
    body = moved(place, store)
    guarded = (For(last.name, size, (), LoopKind.SERIAL, (For(step, size, (), LoopKind.SERIAL, (body,)),)),)
    inner = body.value.a if isinstance(body.value, Within) else body.value
    fast = Store(body.buffer, body.index, inner)
    square: tuple[Stmt, ...] = (
        For(last.name, size, (), LoopKind.UNROLL, (For(step, size, (), LoopKind.VECTOR, (fast,)),)),
    )
    if conds:
        ranges = {last.name: (0, size - 1), step: (0, size - 1)}
        square = (
            If(tuple(_least(c.substitute({along.name: place}), ranges) for c in conds), square, guarded),
        )
    rest = moved(var(step) + whole * size, store)
    tail = (For(step, left, (), LoopKind.SERIAL, (For(last.name, size, (), LoopKind.SERIAL, (rest,)),)),)
    tiles: tuple[Stmt, ...] = (For(tile, whole, (), LoopKind.SERIAL, square),)
    return _around(outer, tiles + (tail if left else ()), parallel and bool(outer))


def _least(form: Affine, ranges: dict[str, tuple[int, int]]) -> Affine:
    """The smallest value over some variables, in terms of the others."""
    inner = Affine(tuple((n, c) for n, c in form.terms if n in ranges))
    return form - inner + interval(inner, ranges)[0]


def _index(state: State, scope: Scope, pack: Pack) -> tuple[Affine, ...]:
    """The index at which the reader loads the operand, over the loops to be packed and those opened."""
    reader = state.program.stage(pack.stage)
    indices = {x.index for x in loads(reader.body) if x.tensor == pack.tensor}
    if len(indices) != 1:
        raise IllegalStep(pack, f"{reader.name} reads {pack.tensor} at several indices")
    values = scope_around(state, scope, reader).frames[reader.name].values
    index = tuple(i.substitute(values) for i in next(iter(indices)))
    for name in dict.fromkeys(n for i in index for n in i.names):
        if name not in pack.loops and name not in scope.opened:
            raise IllegalStep(pack, f"{pack.tensor} is read along {name}, which is not packed")
    if any(loop in scope.opened for loop in pack.loops):
        raise IllegalStep(pack, "a packed loop is outside of the place of packing")
    return index


def _is_parallel(state: State, stage: Stage) -> bool:
    """Whether a stage is computed inside a parallel loop."""
    plan = state.plans[stage.name]
    while plan.at is not None:
        plan = state.plans[plan.at[0]]
    return LoopKind.PARALLEL in plan.kinds.values()


def _is_contiguous(index: tuple[Affine, ...], name: str) -> bool:
    return index[-1].coefficient(name) == 1 and not any(i.coefficient(name) for i in index[:-1])
