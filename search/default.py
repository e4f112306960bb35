"""The untuned schedule: what a careful compiler does without searching."""

from math import prod

from tunesmith.ir.expr import loads
from tunesmith.ir.program import Axis, Program, Stage
from tunesmith.records import Target
from tunesmith.schedule import (
    CacheWrite,
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
from tunesmith.search.rules import Hardware, Slices

__all__ = ["default_schedule"]

_SLICES = Slices(least_points=1 << 17)  # at a guess; tuning measures where it pays
_SHARED_ELEMENTS = 1 << 16  # of one row, from which on threads share it
_MOST_LANES = 64


def default_schedule(program: Program, target: Target) -> Schedule:
    """Every stage by itself in plain loops, the outermost parallel. The last spatial axis is innermost and
    vectorized where operands lie close along it; otherwise a reduction that does lie close is summed in
    vector lanes. A long reduction to few values is sliced, a slice a thread. It is always legal and always
    measured."""
    state = replay(program, Schedule())
    steps: list[Step] = []
    for stage in program.stages:
        try:
            mine = _steps(program, stage, target)
            for step in mine:
                state = apply(state, step)
        except IllegalStep:  # names that clash with this stage's own: it stays in plain loops
            state = replay(program, Schedule(tuple(steps)))
            continue
        steps += mine
    return Schedule(tuple(steps))


def _steps(program: Program, stage: Stage, target: Target) -> list[Step]:
    """Raises IllegalStep."""
    slices = _SLICES.step(program, stage, Hardware.of(target, stage.dtype), 1) if target.threads > 1 else None
    if slices is None:
        return _stage_steps(program, stage, target)
    partial = f"{stage.name}.rf"
    sliced = replay(program, Schedule((slices,))).program
    return [slices, *_sliced(sliced, sliced.stage(partial), Hardware.of(target, stage.dtype))]


def _sliced(program: Program, stage: Stage, hardware: Hardware) -> list[Step]:
    """Partial results of slices, each slice in a buffer of its thread's own."""
    slices, *axes = (a.name for a in stage.axes)
    last = next(a for a in reversed(stage.axes) if a.extent > 1)
    axis = reduces_contiguously(program, stage)
    extent = next((a.extent for a in stage.reduce_axes if a.name == axis), 0)
    width = min(8 * hardware.lanes, extent // 2, _MOST_LANES)
    if axis is not None and width > 1 and not _lies_close(program, stage, last.name):
        return _reduced_lanes(stage, axis, width, hardware.threads)
    own = f"{stage.name}.acc"
    steps: list[Step] = [CacheWrite(stage.name), Parallel(stage.name, slices)]
    steps.append(ComputeAt(own, stage.name, slices))
    order = [*axes, *(a.name for a in stage.reduce_axes)]
    if last.name in axes and _lies_close(program, stage, last.name):
        order = [a for a in order if a != last.name] + [f"{last.name}.0"]
        steps.append(Split(own, last.name, (min(hardware.lanes, last.extent),)))
        steps.append(Reorder(own, (*order, f"{last.name}.1")))
        return [*steps, Vectorize(own, f"{last.name}.1")]
    return steps


def _stage_steps(program: Program, stage: Stage, target: Target) -> list[Step]:
    lanes = target.lanes(stage.dtype)
    last = next((a for a in reversed(stage.axes) if a.extent > 1), None)
    if last is not None and _lies_close(program, stage, last.name):
        return _spatial_lanes(stage, last.name, min(lanes, last.extent), target.threads)
    axis = reduces_contiguously(program, stage)
    extent = next((a.extent for a in stage.reduce_axes if a.name == axis), 0)
    if axis is not None and extent >= 2 * lanes:
        if last is None:
            return _one_value(stage, axis, min(8 * lanes, extent // 2, _MOST_LANES))
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
    loops = [*order, *reduce, f"{axis}.0"]
    if threads > 1 and not wide and not reduce and prod(stage.shape) >= _SHARED_ELEMENTS:
        first, loops = [f"{axis}.0"], [f"{axis}.0", *order]
    steps: list[Step] = [
        Split(stage.name, axis, (lanes,)),
        Reorder(stage.name, (*loops, f"{axis}.1")),
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
    lane = "lane2" if any(a.name == "lane" for a in stage.axes) else "lane"
    host = stage.axes[-1].name
    others = [a.name for a in stage.axes]
    reduce = [a.name for a in stage.reduce_axes]
    steps: list[Step] = [RFactor(stage.name, axis, lanes)]
    steps += _parallel(stage.name, [a for a in stage.axes if a.extent > 1], threads, stage)
    if threads > 1 and steps[1:]:
        host = ([a for a in others if a != steps[-1].loop] or [host])[-1]  # type: ignore[union-attr]
    return [
        *steps,
        Vectorize(stage.name, lane),
        ComputeAt(partial, stage.name, host),
        Reorder(partial, (*others, *reduce, lane)),
        Vectorize(partial, lane),
    ]
