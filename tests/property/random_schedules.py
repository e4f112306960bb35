"""Random steps: mostly sensible ones, at the place in a schedule where they belong, and some that are not."""

from collections.abc import Callable

from hypothesis import strategies as st

from tunesmith.ir import Program
from tunesmith.ir.expr import loads
from tunesmith.schedule import (
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
    Part,
    Reorder,
    RFactor,
    Schedule,
    Split,
    State,
    Step,
    Stream,
    Tail,
    Unroll,
    Vectorize,
    replay,
)
from tunesmith.schedule.state import apply

FACTORS = (1, 2, 3, 4, 4, 5, 8, 8, 16, 33)

Phases = list[list["Make"]]
Make = Callable[[st.DrawFn, State], Step | list[Step] | None]


@st.composite
def schedules(draw: st.DrawFn, program: Program, phases: "Phases | None" = None) -> Schedule:
    """Steps that replay accepts. Anything but IllegalStep that a step raises is a bug and passes through."""
    state = replay(program, Schedule())
    steps: list[Step] = []
    if phases is None:
        phases = [_STAGES, _LOOPS, _PLACES, _LOOPS, _KINDS, _PACKS]
        if draw(st.integers(0, 5)) == 0:
            phases = [_ANY, _ANY, _ANY]
    for kinds in phases:
        for _ in range(draw(st.integers(0, 4))):
            made = draw(st.sampled_from(kinds))(draw, state)
            for step in made if isinstance(made, list) else [made]:
                try:
                    state = apply(state, step) if step is not None else state
                except IllegalStep:
                    break
                if step is not None:
                    steps.append(step)
    return Schedule(tuple(steps))


def _stage(draw: st.DrawFn, state: State) -> str:
    return draw(st.sampled_from([s.name for s in state.program.stages]))


def _loop(draw: st.DrawFn, state: State, stage: str) -> str | None:
    loops = state.plans[stage].loops
    return draw(st.sampled_from(loops)) if loops else None


def _inline(draw: st.DrawFn, state: State) -> Step:
    return Inline(_stage(draw, state))


def _cache_write(draw: st.DrawFn, state: State) -> Step | None:
    reducing = [s.name for s in state.program.stages if s.reducer is not None]
    return CacheWrite(draw(st.sampled_from(reducing))) if reducing else None


def _rfactor(draw: st.DrawFn, state: State) -> Step | None:
    axes = [(s.name, a.name) for s in state.program.stages for a in s.reduce_axes]
    if not axes:
        return None
    stage, axis = draw(st.sampled_from(axes))
    return RFactor(stage, axis, draw(st.sampled_from([2, 2, 3, 4, 5, 8])), draw(st.sampled_from(list(Part))))


def _split(draw: st.DrawFn, state: State) -> Step | None:
    stage = _stage(draw, state)
    loop = _loop(draw, state, stage)
    if loop is None:
        return None
    factors = draw(st.lists(st.sampled_from(FACTORS), min_size=1, max_size=3))
    return Split(stage, loop, tuple(factors), draw(st.sampled_from(list(Tail))))


def _tile(draw: st.DrawFn, state: State) -> list[Step] | None:
    """Some axes of a stage split, the inner parts innermost, one of them vectorized and others unrolled."""
    stage = state.program.stage(_stage(draw, state))
    loops = [a for a in stage.all_axes if a.name in state.plans[stage.name].loops and a.extent > 1]
    if not loops:
        return None
    chosen = draw(st.permutations(loops))[: draw(st.integers(1, 3))]
    steps: list[Step] = []
    outer = [x for x in state.plans[stage.name].loops if x not in {a.name for a in chosen}]
    inner: list[str] = []
    for axis in chosen:
        fitting = [f for f in FACTORS if f <= axis.extent] or [2]
        factors = draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2))
        steps.append(Split(stage.name, axis.name, tuple(factors), draw(st.sampled_from(list(Tail)))))
        parts = [f"{axis.name}.{n}" for n in range(len(factors) + 1)]
        outer.extend(parts[:-1])
        inner.append(parts[-1])
    steps.append(Reorder(stage.name, (*outer, *inner)))
    lane = draw(st.sampled_from([*inner, inner[-1], None]))
    for loop in inner:
        if loop == lane:
            steps.append(Vectorize(stage.name, loop))
        elif draw(st.integers(0, 3)):
            steps.append(Unroll(stage.name, loop))
    return steps


def _fuse(draw: st.DrawFn, state: State) -> Step | None:
    stage = _stage(draw, state)
    loops = state.plans[stage].loops
    if len(loops) < 2:
        return None
    n = draw(st.integers(0, len(loops) - 2))
    return Fuse(stage, loops[n], loops[n + 1])


def _reorder(draw: st.DrawFn, state: State) -> Step | None:
    stage = _stage(draw, state)
    loops = state.plans[stage].loops
    if len(loops) < 2:
        return None
    chosen = draw(st.permutations(loops))
    return Reorder(stage, tuple(chosen[: draw(st.integers(2, len(loops)))]))


def _unroll(draw: st.DrawFn, state: State) -> Step | None:
    stage = _stage(draw, state)
    loop = _loop(draw, state, stage)
    return Unroll(stage, loop) if loop else None


def _vectorize(draw: st.DrawFn, state: State) -> Step | None:
    stage = _stage(draw, state)
    loops = state.plans[stage].loops
    if not loops:
        return None
    return Vectorize(stage, loops[-1] if draw(st.booleans()) else draw(st.sampled_from(loops)))


def _parallel(draw: st.DrawFn, state: State) -> Step | None:
    stage = _stage(draw, state)
    loops = state.plans[stage].loops
    return Parallel(stage, loops[0]) if loops else None


def _compute_at(draw: st.DrawFn, state: State) -> Step | None:
    """Readers come first, so that chains end up inside one another."""
    stage = _stage(draw, state)
    hosts = [s.name for s in state.program.consumers(stage)]
    hosts += [at[0] for h in hosts if (at := state.plans[h].at) is not None]
    host = draw(st.sampled_from(hosts)) if hosts else _stage(draw, state)
    loop = _loop(draw, state, host)
    return ComputeAt(stage, host, loop) if loop else None


def _join(draw: st.DrawFn, state: State) -> Step | None:
    """Two stages at one place."""
    stage = _stage(draw, state)
    names = [s.name for s in state.program.stages if state.plans[s.name].at == state.plans[stage].at]
    before = names[: names.index(stage)]
    return Join(stage, draw(st.sampled_from(before))) if before else None


def _tiles_joined(draw: st.DrawFn, state: State) -> list[Step] | None:
    """A reduction and what it reads, along one axis in tiles of one size, in one loop."""
    pairs = [
        (reader, producer, load.index[-1].names[0])
        for reader in state.program.stages
        for load in loads(reader.body)
        if (producer := state.program.stage_by_name.get(load.tensor)) is not None
        and load.index
        and len(load.index[-1].names) == 1
    ]
    if not pairs:
        return None
    reader, producer, axis = draw(st.sampled_from(pairs))
    factor = draw(st.sampled_from(FACTORS))
    steps: list[Step] = []
    for name, along in ((producer.name, producer.axes[-1].name), (reader.name, axis)):
        others = [x for x in state.plans[name].loops if x != along]
        steps.append(Split(name, along, (factor,), draw(st.sampled_from(list(Tail)))))
        steps.append(Reorder(name, (f"{along}.0", *draw(st.permutations([*others, f"{along}.1"])))))
        if draw(st.booleans()):
            steps.append(Vectorize(name, f"{along}.1"))
    return [*steps, Join(reader.name, producer.name)]


def _pack(draw: st.DrawFn, state: State) -> Step | None:
    """An operand that its reader reads at one index."""
    inputs = {t.name: t for t in state.program.inputs}
    reads = {(s.name, x.tensor): x for s in state.program.stages for x in loads(s.body) if x.tensor in inputs}
    whole = [
        key
        for key in reads
        if len({x.index for x in loads(state.program.stage(key[0]).body) if x.tensor == key[1]}) == 1
    ]
    if not whole:
        return None
    stage, tensor = draw(st.sampled_from(whole))
    around = _loops_around(state, stage)
    names = {n for i in reads[stage, tensor].index for n in i.names}
    places = [f"{s}.{loop}" for s, loop in around]
    early = [PREPARE] * 4 if inputs[tensor].const else [ROOT] * 2
    at = draw(st.sampled_from([ROOT, *early, *places]))
    inside = around[1 + next((n for n, (s, x) in enumerate(around) if f"{s}.{x}" == at), -1) :]
    wanted = [
        f"{s}.{leaf}"
        for s, loop in inside
        for leaf in state.plans[s].leaves(loop)
        if s != stage or state.plans[s].axis_of(leaf) in names
    ]
    if draw(st.integers(0, 3)) == 0:
        wanted = list(draw(st.permutations(wanted)))
    return Pack(stage, tensor, tuple(wanted), at)


def _loops_around(state: State, stage: str) -> list[tuple[str, str]]:
    """(stage, loop) of every loop around a stage's body, outermost first."""
    plan = state.plans[stage]
    own = [(stage, x) for x in plan.loops]
    if plan.at is None:
        return own
    host, loop = plan.at
    outer = _loops_around(state, host)
    return [*outer[: outer.index((host, loop)) + 1], *own]


def _stream(draw: st.DrawFn, state: State) -> Step:
    return Stream(draw(st.sampled_from(state.program.outputs)))


_STAGES: list[Make] = [_inline, _inline, _cache_write, _rfactor, _rfactor]
_LOOPS: list[Make] = [_tile, _tile, _tile, _tile, _split, _split, _reorder, _fuse]
_PLACES: list[Make] = [_compute_at, _compute_at, _compute_at, _join, _tiles_joined]
_KINDS: list[Make] = [_tile, _unroll, _vectorize, _vectorize, _parallel, _reorder]
_PACKS: list[Make] = [_pack, _pack, _stream, _compute_at, _join]
_ANY: list[Make] = [*_STAGES, *_LOOPS, *_PLACES, *_KINDS, *_PACKS, _tiles_joined]
_DEEP: list[Make] = [_split, _split, _split, _reorder, _reorder, _fuse]

JOINED: Phases = [[_rfactor, _cache_write], [_tiles_joined, _tiles_joined, _join], _PLACES, _KINDS]
"""Stages in one loop, with all that may follow."""

NESTED: Phases = [[_cache_write, _compute_at], _DEEP, _DEEP, _DEEP, _PLACES, [_unroll, _unroll, _vectorize]]
"""Splits of splits in any order, where tails meet tails."""
