"""Steps that rewrite the program's stages without changing what it computes."""

from dataclasses import replace

from tunesmith.ir.affine import Affine, constant, var
from tunesmith.ir.expr import Const, Load, Within, substitute
from tunesmith.ir.padding import inlined
from tunesmith.ir.program import Axis, Program, Stage
from tunesmith.schedule.steps import CacheWrite, IllegalStep, Inline, Part, RFactor

__all__ = ["cache_write", "inline", "rfactor"]


def inline(program: Program, step: Inline) -> Program:
    """Replace loads of an elementwise stage by its body. Raises IllegalStep.

    Products of a sum with a zero of padding become absent terms: such a zero stays one against an infinity.
    """
    producer = program.stage(step.stage)
    if producer.reducer is not None:
        raise IllegalStep(step, "a reduction cannot be inlined")
    if step.stage in program.outputs:
        raise IllegalStep(step, "an output cannot be inlined")
    return inlined(program, step.stage)


def _insert(program: Program, old: Stage, new: tuple[Stage, ...]) -> Program:
    stages: list[Stage] = []
    for s in program.stages:
        stages.extend(new if s is old else (s,))
    return program.with_stages(tuple(stages))


def _fresh(program: Program, name: str, step: object) -> str:
    if name in program.tensors:
        raise IllegalStep(step, f"{name} exists already")
    return name


def cache_write(program: Program, step: CacheWrite) -> Program:
    """Split a reduction into one that reduces into ``stage.acc`` and one that copies it out."""
    stage = program.stage(step.stage)
    if stage.reducer is None:
        raise IllegalStep(step, "it reduces nothing")
    name = _fresh(program, f"{stage.name}.acc", step)
    load = Load(name, tuple(var(a.name) for a in stage.axes))
    copy = replace(stage, reduce_axes=(), reducer=None, body=load)
    return _insert(program, stage, (replace(stage, name=name), copy))


def rfactor(program: Program, step: RFactor) -> Program:
    """Split a reduce axis and turn one part into an axis of ``stage.rf``, over which ``stage`` then reduces.

    The new axis is the last one of ``stage.rf``, for slices the first one, and named ``lane`` (or ``lane2`` …
    when that is taken); the part that stays is named as the axis was.
    """
    stage = program.stage(step.stage)
    axis = next((a for a in stage.reduce_axes if a.name == step.axis), None)
    if axis is None or stage.reducer is None:
        raise IllegalStep(step, f"no reduce axis {step.axis}")
    if not 1 < step.factor <= axis.extent:
        raise IllegalStep(step, f"the factor must be in 2..{axis.extent}")
    name = _fresh(program, f"{stage.name}.rf", step)
    taken = {a.name for a in stage.all_axes}
    fresh = next(n for n in ("lane", *(f"lane{i}" for i in range(2, 99))) if n not in taken)
    outer = -(-axis.extent // step.factor)
    if step.part is Part.INNER:  # axis = rest * factor + lane
        lane_extent, rest_extent = step.factor, outer
        value = var(axis.name) * step.factor + var(fresh)
    else:  # axis = lane * factor + rest
        lane_extent, rest_extent = outer, step.factor
        value = var(fresh) * step.factor + var(axis.name)
    body = substitute(stage.body, {axis.name: value})
    if outer * step.factor != axis.extent:
        body = Within((constant(axis.extent - 1) - value,), body, Const(stage.reducer.identity))
    lane = Axis(fresh, lane_extent)
    rest = tuple(Axis(axis.name, rest_extent) if a is axis else a for a in stage.reduce_axes)
    axes = (lane, *stage.axes) if step.part is Part.SLICES else (*stage.axes, lane)
    partial = replace(stage, name=name, axes=axes, reduce_axes=rest, body=body)
    index: tuple[Affine, ...] = tuple(var(a.name) for a in partial.axes)
    final = replace(stage, reduce_axes=(lane,), body=Load(name, index))
    return _insert(program, stage, (partial, final))
