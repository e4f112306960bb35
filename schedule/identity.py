"""What the code of a schedule depends on, so that schedules which differ without a difference are known.

A loop of one step is no loop, wherever it stands; a tail is nothing where tiles divide. What remains are the
stages with their loops of more than one step in order, where each is computed, and what is packed in which
order. Extents of stages inside of others are not known before lowering: their bounds are used, so that two
schedules of one identity are the same code, while some of the same code have two identities.
"""

from collections.abc import Hashable
from math import prod
from typing import TypeAlias

from tunesmith.ir.program import Program, Stage
from tunesmith.schedule.state import FuseInfo, Plan, SplitInfo, State, replay
from tunesmith.schedule.steps import Schedule

__all__ = ["Identity", "identity"]

Identity: TypeAlias = Hashable
_Extents: TypeAlias = dict[str, dict[str, int]]
"""Steps of loops, by stage."""


def identity(program: Program, schedule: Schedule) -> Identity:
    """Equal for schedules of a program that become the same code. Raises IllegalStep."""
    state = replay(program, schedule)
    extents = {s.name: _extents(s, state.plans[s.name]) for s in state.program.stages}
    stages = tuple((s, _plan(state, state.plans[s.name], extents, s.name)) for s in state.program.stages)
    packs = tuple(
        (p.stage, p.tensor, tuple(x for x in p.loops if _steps(extents, x) > 1), _place(state, extents, p.at))
        for p in state.packs
    )
    return stages, packs


def _extents(stage: Stage, plan: Plan) -> dict[str, int]:
    """Steps of every loop, and of every one that loops were split from or fused of."""
    found = {a.name: a.extent for a in stage.all_axes}
    for d in plan.derivations:
        if isinstance(d, FuseInfo):
            found[d.name] = found[d.first] * found[d.second]
            continue
        for part, factor in zip(d.parts[1:], d.factors, strict=True):
            found[part] = min(factor, found[d.parent])
        found[d.parts[0]] = -(-found[d.parent] // prod(d.factors))
    return found


def _plan(state: State, plan: Plan, extents: _Extents, stage: str) -> Hashable:
    mine = extents[stage]
    loops = tuple((x, mine[x], plan.kind(x)) for x in plan.loops if mine[x] > 1)
    tails = tuple(
        (d.parent, d.factors, d.tail)
        for d in plan.derivations
        if isinstance(d, SplitInfo) and (plan.at is not None or mine[d.parent] % prod(d.factors))
    )
    at = None if plan.at is None else _place(state, extents, ".".join(plan.at))
    joined = plan.leader and (plan.loops[0], plan.leader, state.plans[plan.leader].loops[0])
    return loops, tails, at, plan.stream, joined


def _place(state: State, extents: _Extents, at: str) -> str:
    """The innermost loop of more than one step at or around a place."""
    found = _owner(extents, at)
    if found is None:
        return at
    host, loop = found
    loops = state.plans[host].loops
    around = [x for x in loops[: loops.index(loop) + 1] if extents[host][x] > 1]
    return f"{host}.{around[-1]}" if around else f"{host}."


def _steps(extents: _Extents, loop: str) -> int:
    found = _owner(extents, loop)
    return 2 if found is None else extents[found[0]][found[1]]


def _owner(extents: _Extents, name: str) -> tuple[str, str] | None:
    """Stage and loop, of their names joined."""
    pairs = ((s, name[len(s) + 1 :]) for s in extents if name.startswith(f"{s}."))
    return next(((s, x) for s, x in pairs if x in extents[s]), None)
