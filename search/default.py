"""The untuned schedule: what a careful compiler does without searching."""

from tunesmith.ir.expr import loads
from tunesmith.ir.program import Axis, Program, Stage
from tunesmith.records import Target
from tunesmith.schedule import (
    ComputeAt,
    IllegalStep,
    Parallel,
    Reorder,
    RFactor,
    Schedule,
    Split,
    Step,
    Vectorize,
    replay,
)
from tunesmith.schedule.state import apply
from tunesmith.search.analysis import flat_stride, reduces_contiguously

__all__ = ["default_schedule"]


def default_schedule(program: Program, target: Target) -> Schedule:
    """Every stage by itself in plain loops, the outermost parallel. The last spatial axis is innermost and
    vectorized where operands lie close along it; otherwise a reduction that does lie close is summed in
    vector lanes. It is always legal and always measured."""
    state = replay(program, Schedule())
    steps: list[Step] = []
    for stage in program.stages:
        mine = _stage_steps(program, stage, target)
        try:
            for step in mine:
                state = apply(state, step)
        except IllegalStep:  # names that clash with this stage's own: it stays in plain loops
            state = replay(program, Schedule(tuple(steps)))
            continue
        steps += mine
    return Schedule(tuple(steps))


def _stage_steps(program: Program, stage: Stage, target: Target) -> list[Step]:
    lanes = target.lanes(stage.dtype)
    last = next((a for a in reversed(stage.axes) if a.extent > 1), None)
    if last is not None and _lies_close(program, stage, last.name):
        return _spatial_lanes(stage, last.name, min(lanes, last.extent), target.threads)
    axis = reduces_contiguously(program, stage)
    extent = next((a.extent for a in stage.reduce_axes if a.name == axis), 0)
    if axis is not None and extent >= 2 * lanes:
        if last is None:
            return _one_value(stage, axis, min(8 * lanes, extent // 2))
        return _reduced_lanes(stage, axis, lanes, target.threads)
    return _parallel(stage.name, [a for a in stage.axes if a.extent > 1], target.threads, stage)


def _lies_close(program: Program, stage: Stage, axis: str) -> bool:
    after = [a for a in stage.axes[[a.name for a in stage.axes].index(axis) + 1 :] if a.extent > 1]
    return not after and all(flat_stride(program, x, axis) in (0, 1) for x in loads(stage.body))


def _parallel(name: str, axes: list[Axis], threads: int, stage: Stage) -> list[Step]:
    if threads == 1 or not axes:
        return []
    first = axes[0].name
    others = [a.name for a in stage.axes if a.name != first]
    return [Reorder(name, (first, *others)), Parallel(name, first)]


def _spatial_lanes(stage: Stage, axis: str, lanes: int, threads: int) -> list[Step]:
    others = [a for a in stage.axes if a.name != axis]
    wide = [a for a in others if a.extent > 1]
    first = [a.name for a in wide[:1]] if threads > 1 else []
    order = [*first, *(a.name for a in others if a.name not in first)]
    reduce = [a.name for a in stage.reduce_axes]
    steps: list[Step] = [
        Split(stage.name, axis, (lanes,)),
        Reorder(stage.name, (*order, *reduce, f"{axis}.0", f"{axis}.1")),
        Vectorize(stage.name, f"{axis}.1"),
    ]
    return steps + [Parallel(stage.name, x) for x in first]


def _one_value(stage: Stage, axis: str, width: int) -> list[Step]:
    """A reduction to one value: many partial results, which also keep long sums accurate."""
    partial = f"{stage.name}.rf"
    spatial, reduce = [a.name for a in stage.axes], [a.name for a in stage.reduce_axes]
    return [
        RFactor(stage.name, axis, width),
        Reorder(partial, (*spatial, *reduce, "lane")),
        Vectorize(partial, "lane"),
    ]


def _reduced_lanes(stage: Stage, axis: str, lanes: int, threads: int) -> list[Step]:
    partial = f"{stage.name}.rf"
    host = stage.axes[-1].name
    others = [a.name for a in stage.axes]
    reduce = [a.name for a in stage.reduce_axes]
    steps: list[Step] = [RFactor(stage.name, axis, lanes)]
    steps += _parallel(stage.name, [a for a in stage.axes if a.extent > 1], threads, stage)
    if threads > 1 and steps[1:]:
        host = ([a for a in others if a != steps[-1].loop] or [host])[-1]  # type: ignore[union-attr]
    return [
        *steps,
        Vectorize(stage.name, "lane"),
        ComputeAt(partial, stage.name, host),
        Reorder(partial, (*others, *reduce, "lane")),
        Vectorize(partial, "lane"),
    ]
