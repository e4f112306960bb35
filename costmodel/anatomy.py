"""The parts of one candidate: its stages and copies with their costs, as the prior adds them up.

A schedule is a sketch without knobs, so that also those that no rule makes any more have a structure.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.prior import StageCost, stage_cost
from tunesmith.costmodel.structure import StageShape, shapes, structure
from tunesmith.ir.expr import loads
from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.padding import share_of_terms
from tunesmith.ir.printing import format_program
from tunesmith.ir.program import Program, Stage
from tunesmith.records import Target
from tunesmith.schedule import Schedule, Sketch, State

__all__ = ["ALONE", "Anatomy", "Part", "anatomy", "fixed"]

ALONE: NDArray[np.int64] = np.zeros((1, 0), dtype=np.int64)
"""The population of a sketch without knobs: its one candidate."""


@dataclass(frozen=True)
class Part:
    """A stage, or a packing copy (``is_copy``). ``reuses``: a reduction that uses operands more than once.

    ``unrolled``: vectors in one pass of unrolled code; ``passes`` of it in a call. ``lanes_used``: of a
    vector's lanes. ``wasted``: share of what is computed that is not needed, in tails or computed again.
    """

    name: str
    formula: str
    is_copy: bool
    reduces: bool
    reuses: bool
    cost: StageCost
    loads_per_fma: float
    accumulators: float
    unrolled: float
    passes: float
    lanes_used: float
    wasted: float


@dataclass(frozen=True)
class Anatomy:
    state: State
    sketch: Sketch
    machine: Machine
    parts: tuple[Part, ...]


def fixed(schedule: Schedule) -> Sketch:
    """A schedule as a sketch without knobs."""
    return Sketch("schedule", schedule.steps, ())


def anatomy(program: Program, schedule: Schedule, target: Target) -> Anatomy:
    """All that takes time in a call. Raises IllegalStep for a schedule that is none of this program."""
    sketch = fixed(schedule)
    state = structure(program, sketch)
    machine = Machine.of(target, state.program.stages[-1].dtype)
    lines = format_program(state.program).splitlines()[1:-1]
    formulas = dict(zip((s.name for s in state.program.stages), map(str.strip, lines), strict=True))
    found = [s for s in shapes(state, {}, 1) if not s.prepare]
    return Anatomy(state, sketch, machine, tuple(_part(s, machine, formulas) for s in found))


def _part(shape: StageShape, machine: Machine, formulas: dict[str, str]) -> Part:
    cost = stage_cost(shape, machine)
    widths = [float(x.extent[0]) for x in shape.loops if x.own and x.kind is LoopKind.VECTOR]
    width = widths[-1] if widths else 1.0
    return Part(
        name=shape.name,
        formula=formulas.get(shape.name) or f"a copy of {shape.reads[0].tensor} in the order of its reads",
        is_copy=shape.stage is None,
        reduces=shape.reduces,
        reuses=shape.reduces and _reuses(shape.stage),
        cost=cost,
        loads_per_fma=float(cost.loads_per_fma[0]),
        accumulators=float(cost.accumulators[0]),
        unrolled=float(cost.unrolled[0]),
        passes=float(np.ravel(cost.iterations)[0]),
        lanes_used=width / (math.ceil(width / machine.lanes) * machine.lanes),
        wasted=_wasted(shape),
    )


def _reuses(stage: Stage | None) -> bool:
    """Whether some operand stays the same along some axis."""
    axes = {a.name for a in stage.all_axes if a.extent > 1} if stage else set()
    return stage is not None and any(
        not axes <= {n for i in x.index for n in i.names} for x in loads(stage.body)
    )


def _wasted(shape: StageShape) -> float:
    if shape.stage is None:
        return 0.0
    needed = math.prod(a.extent for a in shape.stage.all_axes) * share_of_terms(shape.stage)
    done = math.prod(float(x.extent[0]) for x in shape.loops) * float(np.ravel(shape.share)[0])
    return max(0.0, 1.0 - needed / done) if done else 0.0
