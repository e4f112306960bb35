"""The untuned schedule: what a careful compiler does without searching."""

from tunesmith.ir.expr import loads
from tunesmith.ir.program import Program, Stage
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Parallel, Reorder, Schedule, Split, Step, Vectorize, replay
from tunesmith.search.analysis import flat_stride

__all__ = ["default_schedule"]


def default_schedule(program: Program, target: Target) -> Schedule:
    """Every stage by itself in plain loops, the last spatial axis innermost and vectorized where operands
    lie close along it, the outermost loop parallel. It is always legal and measured first."""
    steps: list[Step] = []
    for stage in program.stages:
        steps += _stage_steps(program, stage, target)
    schedule = Schedule(tuple(steps))
    try:
        replay(program, schedule)
    except IllegalStep:
        return Schedule()
    return schedule


def _stage_steps(program: Program, stage: Stage, target: Target) -> list[Step]:
    lanes = target.lanes(stage.dtype)
    wide = [a for a in stage.axes if a.extent > 1]
    steps: list[Step] = []
    vector = None
    if wide:
        last = wide[-1]
        strides = {flat_stride(program, x, last.name) for x in loads(stage.body)}
        contiguous = last is stage.axes[-1] or all(
            a.extent == 1 for a in stage.axes[stage.axes.index(last) + 1 :]
        )
        if strides <= {0, 1} and contiguous and last.extent >= 2:
            vector = last.name
            others = [a.name for a in stage.axes if a is not last]
            steps.append(Split(stage.name, vector, (min(lanes, last.extent),)))
            reduce = [a.name for a in stage.reduce_axes]
            steps.append(Reorder(stage.name, (*others, *reduce, f"{vector}.0", f"{vector}.1")))
            steps.append(Vectorize(stage.name, f"{vector}.1"))
    first = next((a.name for a in stage.axes if a.extent > 1 and a.name != vector), None)
    if target.threads > 1 and first is not None:
        names = [a.name for a in stage.axes if a.name != vector]
        steps.append(Reorder(stage.name, (first, *(n for n in names if n != first))))
        steps.append(Parallel(stage.name, first))
    return steps
