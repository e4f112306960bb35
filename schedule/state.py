"""Replay: the loop structure that a schedule gives a program.

A State holds the (transformed) program and one Plan a stage. It is pure structure: split factors are kept as
they are given and never computed with, so the same replay serves one candidate (ints) and a whole population
(arrays). Numbers enter in ``schedule.lower`` and in the cost model's features.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.program import Program, Stage
from tunesmith.schedule.steps import (
    PREPARE,
    ROOT,
    CacheWrite,
    ComputeAt,
    Fuse,
    IllegalStep,
    Inline,
    Join,
    Pack,
    Parallel,
    Reorder,
    RFactor,
    Schedule,
    Split,
    Step,
    Stream,
    Tail,
    Unroll,
    Vectorize,
)
from tunesmith.schedule.transform import cache_write, inline, rfactor

__all__ = ["FuseInfo", "Plan", "SplitInfo", "State", "apply", "replay", "split_name"]

_MOST_LOOPS = 64  # of one stage


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """``parent`` = sum of ``stride * part``; parts outermost first, strides products of later factors."""

    parent: str
    parts: tuple[str, ...]
    factors: tuple[Any, ...]
    tail: Tail | Any


@dataclass(frozen=True, slots=True)
class FuseInfo:
    """``first = name // extent(second)``, ``second = name % extent(second)``."""

    name: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How one stage is computed: its loops outermost first, their kinds, and where it stands.

    ``stream``: its result is written past the caches. ``leader``: the stage whose outermost loop is this
    one's too.
    ``at`` is None at the root, else (consumer, loop). ``derivations`` in the order of the steps.
    """

    loops: tuple[str, ...]
    kinds: dict[str, LoopKind] = field(default_factory=dict)
    derivations: tuple[SplitInfo | FuseInfo, ...] = ()
    at: tuple[str, str] | None = None
    stream: bool = False
    leader: str | None = None

    def kind(self, loop: str) -> LoopKind:
        return self.kinds.get(loop, LoopKind.SERIAL)

    def axis_of(self, loop: str) -> str:
        """The axis a loop was split from; the first one for a fused loop."""
        for d in reversed(self.derivations):
            if isinstance(d, SplitInfo) and loop in d.parts:
                loop = d.parent
            elif isinstance(d, FuseInfo) and loop == d.name:
                loop = d.first
        return loop

    def leaves(self, loop: str) -> tuple[str, ...]:
        """Index variables that a loop defines: itself, or the parts of a fused loop."""
        for d in self.derivations:
            if isinstance(d, FuseInfo) and d.name == loop:
                return self.leaves(d.first) + self.leaves(d.second)
        return (loop,)


@dataclass(frozen=True)
class State:
    program: Program
    plans: dict[str, Plan]
    packs: tuple[Pack, ...] = ()

    @cached_property
    def attached(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Stages computed at each (consumer, loop), producers first."""
        out: dict[tuple[str, str], tuple[str, ...]] = {}
        for stage in self.program.stages:
            at = self.plans[stage.name].at
            if at is not None:
                out[at] = (*out.get(at, ()), stage.name)
        return out

    @cached_property
    def followers(self) -> dict[str, tuple[str, ...]]:
        """The stages that run along with each leader, producers first."""
        out: dict[str, tuple[str, ...]] = {}
        for stage in self.program.stages:
            leader = self.plans[stage.name].leader
            if leader is not None:
                out[leader] = (*out.get(leader, ()), stage.name)
        return out

    @cached_property
    def readers(self) -> dict[str, tuple[Stage, ...]]:
        """The stages that read each tensor, in the order of the program."""
        out: dict[str, tuple[Stage, ...]] = {}
        for stage in self.program.stages:
            for name in stage.reads:
                out[name] = (*out.get(name, ()), stage)
        return out

    @cached_property
    def packed(self) -> dict[tuple[str, str], Pack]:
        """The pack of each (stage, operand) that has one."""
        return {(p.stage, p.tensor): p for p in self.packs}

    def packs_at(self, stage: str, loop: str) -> tuple[Pack, ...]:
        """Operands packed inside this loop."""
        return tuple(p for p in self.packs if p.at == f"{stage}.{loop}")

    def with_plan(self, stage: str, plan: Plan) -> "State":
        return replace(self, plans={**self.plans, stage: plan})

    def storage_order(self, stage: Stage) -> tuple[int, ...]:
        """Dimensions of a stage's buffer inside of a loop, outermost first: its own, with the one along which
        it is vectorized last, so that its vectors lie close."""
        plan = self.plans[stage.name]
        lanes = {plan.axis_of(x) for x in plan.loops if plan.kind(x) is LoopKind.VECTOR}
        return tuple(sorted(range(len(stage.axes)), key=lambda d: stage.axes[d].name in lanes))

    def is_reduce_loop(self, stage: Stage, loop: str) -> bool:
        return self.plans[stage.name].axis_of(loop) in {a.name for a in stage.reduce_axes}


def split_name(loop: str, part: int) -> str:
    return f"{loop}.{part}"


def _initial_plan(stage: Stage) -> Plan:
    return Plan(tuple(a.name for a in stage.all_axes))


def replay(program: Program, schedule: Schedule) -> State:
    """Apply the steps in order. Raises IllegalStep; the inputs stay as they are."""
    state = State(program, {s.name: _initial_plan(s) for s in program.stages})
    for step in schedule.steps:
        state = apply(state, step)
    return state


def apply(state: State, step: Step) -> State:
    """The state after one step. Raises IllegalStep naming the step and the reason."""
    after = _applied(state, step)
    for name, plan in after.plans.items():
        if plan.leader is not None:
            _check_join(after, step, name, plan.leader)
    return after


def _applied(state: State, step: Step) -> State:
    if isinstance(step, Pack):
        return _pack(state, step)
    if step.stage not in state.plans:
        raise IllegalStep(step, f"no stage {step.stage}; there are {', '.join(state.plans)}")
    match step:
        case Inline():
            return _restage(state, step, inline(state.program, step))
        case CacheWrite():
            return _restage(state, step, cache_write(state.program, step))
        case RFactor():
            return _restage(state, step, rfactor(state.program, step))
        case ComputeAt():
            return _compute_at(state, step)
        case Join():
            return state.with_plan(step.stage, _join(state, step))
        case Split():
            return state.with_plan(step.stage, _split(state, step))
        case Fuse():
            return state.with_plan(step.stage, _fuse(state, step))
        case Reorder():
            return state.with_plan(step.stage, _reorder(state, step))
        case Unroll():
            return state.with_plan(step.stage, _annotate(state, step, LoopKind.UNROLL))
        case Vectorize():
            return state.with_plan(step.stage, _vectorize(state, step))
        case Parallel():
            return state.with_plan(step.stage, _parallel(state, step))
        case Stream():
            return state.with_plan(step.stage, _stream(state, step))


def _restage(state: State, step: Inline | CacheWrite | RFactor, program: Program) -> State:
    """Plans for a program whose stages changed; those that changed must not be scheduled yet."""
    old = state.program.stage_by_name
    plans: dict[str, Plan] = {}
    for stage in program.stages:
        before = old.get(stage.name)
        if before is None or (before != stage and before.all_axes != stage.all_axes):
            if before is not None and state.plans[stage.name] != _initial_plan(before):
                raise IllegalStep(step, f"{stage.name} already has loop steps")
            plans[stage.name] = _initial_plan(stage)
        else:
            plans[stage.name] = state.plans[stage.name]
    after = State(program, plans, state.packs)
    for name, plan in plans.items():
        if plan.at is not None:
            _check_place(after, step, name, *plan.at)
    for pack in state.packs:
        if pack.stage not in plans or pack.tensor not in program.stage(pack.stage).reads:
            raise IllegalStep(step, f"{pack.tensor} is packed for {pack.stage} already")
        _check_pack_loops(after, step, pack)
    return after


def _loop(state: State, step: Step, loop: str) -> Plan:
    plan = state.plans[step.stage]
    if loop not in plan.loops:
        raise IllegalStep(step, f"no loop {loop} in {step.stage}; its loops are {', '.join(plan.loops)}")
    return plan


def _free_loop(state: State, step: Step, loop: str) -> Plan:
    """The plan, when the loop may still be restructured."""
    plan = _loop(state, step, loop)
    if plan.kind(loop) is not LoopKind.SERIAL:
        raise IllegalStep(step, f"{loop} is {plan.kind(loop)} already")
    if (step.stage, loop) in state.attached:
        raise IllegalStep(step, f"a stage is computed at {loop}")
    if any(f"{step.stage}.{loop}" in (*p.loops, p.at) for p in state.packs):
        raise IllegalStep(step, f"an operand is packed along {loop}")
    return plan


def _split(state: State, step: Split) -> Plan:
    plan = _free_loop(state, step, step.loop)
    if not step.factors or any(isinstance(f, int) and f < 1 for f in step.factors):
        raise IllegalStep(step, "factors must be positive")
    if any(isinstance(d, FuseInfo) and d.name == step.loop for d in plan.derivations):
        raise IllegalStep(step, f"{step.loop} is fused; split before fusing")
    if len(plan.loops) + len(step.factors) > _MOST_LOOPS:
        raise IllegalStep(step, f"{step.stage} would have more than {_MOST_LOOPS} loops")
    parts = tuple(split_name(step.loop, n) for n in range(len(step.factors) + 1))
    i = plan.loops.index(step.loop)
    info = SplitInfo(step.loop, parts, step.factors, step.tail)
    return replace(
        plan,
        loops=plan.loops[:i] + parts + plan.loops[i + 1 :],
        derivations=(*plan.derivations, info),
    )


def _fuse(state: State, step: Fuse) -> Plan:
    plan = _free_loop(state, step, step.first)
    _free_loop(state, step, step.second)
    i = plan.loops.index(step.first)
    if plan.loops[i : i + 2] != (step.first, step.second):
        raise IllegalStep(step, f"{step.second} does not follow {step.first}")
    stage = state.program.stage(step.stage)
    if state.is_reduce_loop(stage, step.first) != state.is_reduce_loop(stage, step.second):
        raise IllegalStep(step, "one loop reduces and the other does not")
    name = f"{step.first}*{step.second}"
    return replace(
        plan,
        loops=(*plan.loops[:i], name, *plan.loops[i + 2 :]),
        derivations=(*plan.derivations, FuseInfo(name, step.first, step.second)),
    )


def _reorder(state: State, step: Reorder) -> Plan:
    plan = state.plans[step.stage]
    for loop in step.loops:
        _loop(state, step, loop)
        if (step.stage, loop) in state.attached:
            raise IllegalStep(step, f"a stage is computed at {loop}")
    if len(set(step.loops)) != len(step.loops):
        raise IllegalStep(step, "a loop is named twice")
    chosen = iter(step.loops)
    loops = tuple(next(chosen) if x in step.loops else x for x in plan.loops)
    return _checked(state, step, replace(plan, loops=loops))


def _checked(state: State, step: Step, plan: Plan) -> Plan:
    """The plan, if its parallel loop is the outermost and its vectorized loop holds nothing but code."""
    for n, loop in enumerate(plan.loops):
        if plan.kind(loop) is LoopKind.PARALLEL and n > 0:
            raise IllegalStep(step, f"{loop} is parallel and not the outermost loop")
        if plan.kind(loop) is not LoopKind.VECTOR:
            continue
        for inner in plan.loops[n:]:
            if (step.stage, inner) in state.attached:
                raise IllegalStep(step, f"a stage is computed at {inner}, inside the vectorized {loop}")
            if state.packs_at(step.stage, inner):
                raise IllegalStep(step, f"an operand is packed at {inner}, inside the vectorized {loop}")
    return plan


def _annotate(state: State, step: Unroll | Vectorize | Parallel, kind: LoopKind) -> Plan:
    plan = _loop(state, step, step.loop)
    if plan.kind(step.loop) is not LoopKind.SERIAL:
        raise IllegalStep(step, f"{step.loop} is {plan.kind(step.loop)} already")
    return replace(plan, kinds={**plan.kinds, step.loop: kind})


def _vectorize(state: State, step: Vectorize) -> Plan:
    plan = _annotate(state, step, LoopKind.VECTOR)
    if sum(k is LoopKind.VECTOR for k in plan.kinds.values()) > 1:
        raise IllegalStep(step, f"{step.stage} has a vectorized loop already")
    if plan.leaves(step.loop) != (step.loop,):
        raise IllegalStep(step, "a fused loop cannot be vectorized")
    return _checked(state, step, plan)


def _parallel(state: State, step: Parallel) -> Plan:
    plan = _annotate(state, step, LoopKind.PARALLEL)
    if plan.at is not None:
        raise IllegalStep(step, f"{step.stage} is computed inside {plan.at[0]}")
    if state.is_reduce_loop(state.program.stage(step.stage), step.loop):
        raise IllegalStep(step, f"{step.loop} reduces: factor it out first")
    return _checked(state, step, plan)


def _stream(state: State, step: Stream) -> Plan:
    if step.stage not in state.program.outputs or state.program.stage(step.stage).reducer is not None:
        raise IllegalStep(step, "only outputs that reduce nothing are written past the caches")
    return replace(state.plans[step.stage], stream=True)


def _is_inside(state: State, stage: str, consumer: str, loop: str) -> bool:
    """Whether a stage is the consumer itself, or computed at this loop or inside it."""
    while stage != consumer:
        at = state.plans[stage].at
        if at is None:
            return False
        if at[0] == consumer:
            loops = state.plans[consumer].loops
            return loops.index(at[1]) >= loops.index(loop)
        stage = at[0]
    return True


def _compute_at(state: State, step: ComputeAt) -> State:
    plan = state.plans[step.stage]
    if step.stage in state.program.outputs:
        raise IllegalStep(step, f"{step.stage} is an output")
    if plan.at is not None:
        raise IllegalStep(step, f"{step.stage} is computed at {'.'.join(plan.at)} already")
    if LoopKind.PARALLEL in plan.kinds.values():
        raise IllegalStep(step, f"{step.stage} is parallel")
    _check_place(state, step, step.stage, step.consumer, step.loop)
    return state.with_plan(step.stage, replace(plan, at=(step.consumer, step.loop)))


def _join(state: State, step: Join) -> Plan:
    plan = state.plans[step.stage]
    if plan.leader is not None or step.stage in state.followers:
        raise IllegalStep(step, f"{step.stage} runs along with another stage already")
    if step.leader in state.plans and state.plans[step.leader].leader is not None:
        raise IllegalStep(step, f"{step.leader} runs along with {state.plans[step.leader].leader}: join that")
    return replace(plan, leader=step.leader)


def _check_join(state: State, step: Step, stage: str, leader: str) -> None:
    """A stage can run along with an earlier one at its place, in a plain loop each, if nothing it needs is
    computed between them."""
    order = [s.name for s in state.program.stages]
    if leader not in order or order.index(leader) >= order.index(stage):
        raise IllegalStep(step, f"no stage {leader} before {stage}, to run along with")
    place = state.plans[stage].at
    if place != state.plans[leader].at:
        raise IllegalStep(step, f"{stage} and {leader}, joined, are computed in different places")
    for name in (leader, stage):
        plan = state.plans[name]
        outermost = plan.loops[0] if plan.loops else None
        if outermost is None or plan.leaves(outermost) != (outermost,):
            raise IllegalStep(step, f"{name}, joined, has no outermost loop that is one of its own")
        if plan.kind(outermost) is not LoopKind.SERIAL:
            raise IllegalStep(step, f"{name}.{outermost}, joined, is {plan.kind(outermost)}")
    group = (leader, *state.followers[leader])
    late = [n for n in order[order.index(leader) :] if state.plans[n].at == place]
    for reader in state.program.stages:
        if _is_inside(state, reader.name, stage, state.plans[stage].loops[0]):
            ready = group if reader.name == stage else ()
            waits = [n for n in late if n in reader.reads and n not in ready]
            if waits:
                raise IllegalStep(step, f"{reader.name} needs {waits[0]}, which comes after {leader} begins")


def _check_place(state: State, step: Step, stage: str, consumer: str, loop: str) -> None:
    """A stage can be computed in a loop that is around all its readers and not inside a vectorized one."""
    if consumer not in state.plans or loop not in state.plans[consumer].loops:
        raise IllegalStep(step, f"no loop {loop} in a stage {consumer}, to compute {stage} at")
    readers = state.program.consumers(stage)
    outside = [s.name for s in readers if not _is_inside(state, s.name, consumer, loop)]
    if not readers or outside:
        raise IllegalStep(
            step, f"{', '.join(outside) or 'nobody'} reads {stage} outside of {consumer}.{loop}"
        )
    if _is_in_vector(state.plans[consumer], loop):
        raise IllegalStep(step, f"{consumer}.{loop} is inside a vectorized loop")


def _is_in_vector(plan: Plan, loop: str) -> bool:
    """Whether a loop, itself included, is inside a vectorized one."""
    around = plan.loops[: plan.loops.index(loop) + 1]
    return any(plan.kind(x) is LoopKind.VECTOR for x in around)


def _pack(state: State, step: Pack) -> State:
    if step.stage not in state.plans or step.tensor not in state.program.stage(step.stage).reads:
        raise IllegalStep(step, f"no stage {step.stage} that reads {step.tensor}")
    if (step.stage, step.tensor) in state.packed:
        raise IllegalStep(step, "packed already")
    source = next((t for t in state.program.inputs if t.name == step.tensor), None)
    if source is None:
        raise IllegalStep(step, "only inputs can be packed; use compute_at for intermediate results")
    if step.at == PREPARE and not source.const:
        raise IllegalStep(step, f"{step.tensor} is not a constant input")
    if not step.loops or len(set(step.loops)) != len(step.loops):
        raise IllegalStep(step, "the loops must be named once each")
    _check_pack_loops(state, step, step)
    return replace(state, packs=(*state.packs, step))


def _check_pack_loops(state: State, step: Step, pack: Pack) -> None:
    """The loops of a pack are around its reader, and so is its place, outside of any vectorized loop."""
    around = _loops_around(state, pack.stage)
    leaves = {f"{s}.{leaf}" for s, loop in around for leaf in state.plans[s].leaves(loop)}
    for leaf in pack.loops:
        if leaf not in leaves:
            raise IllegalStep(step, f"{leaf} is not a loop around {pack.stage}")
    if pack.at in (ROOT, PREPARE):
        return
    place = next(((s, loop) for s, loop in around if f"{s}.{loop}" == pack.at), None)
    if place is None:
        raise IllegalStep(step, f"{pack.at} is not a loop around {pack.stage}, to pack at")
    if _is_in_vector(state.plans[place[0]], place[1]):
        raise IllegalStep(step, f"{pack.at} is inside a vectorized loop")


def _loops_around(state: State, stage: str) -> tuple[tuple[str, str], ...]:
    """(stage, loop) of the loops of a stage and of all it is computed inside, outermost first."""
    around = tuple((stage, loop) for loop in state.plans[stage].loops)
    while (at := state.plans[stage].at) is not None:
        stage, last = at
        loops = state.plans[stage].loops
        around = tuple((stage, loop) for loop in loops[: loops.index(last) + 1]) + around
    return around
