"""Packing: the loops that copy an operand into the order in which its reader goes through it."""

from tunesmith.ir.affine import Affine, constant, var
from tunesmith.ir.expr import Const, Expr, Load, Within, loads
from tunesmith.ir.loopnest import Buffer, For, LoopKind, Role, Stmt, Store
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
    stmts: tuple[Stmt, ...] = (Store(pack.result, tuple(var(names[x]) for x in pack.loops), value),)
    parallel = pack.at in _ROLES and _is_parallel(state, reader)
    for n, loop in reversed(list(enumerate(pack.loops))):
        kind = LoopKind.SERIAL
        if n == 0 and parallel and len(pack.loops) > 1:
            kind = LoopKind.PARALLEL
        elif n == len(pack.loops) - 1 and _is_contiguous(index, names[loop]) and 1 < extents[n] <= lanes:
            kind = LoopKind.VECTOR
        stmts = (For(names[loop], extents[n], (), kind, stmts),)
    role = _ROLES.get(pack.at, Role.LOCAL)
    return copy, Buffer(pack.result, copy.extents, tensor.dtype, role), stmts


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
