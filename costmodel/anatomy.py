"""The parts of one candidate: its stages and copies with their costs, as the prior adds them up.

A schedule is a sketch without knobs, so that also those that no rule makes any more have a structure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.operations import instructions
from tunesmith.costmodel.prior import StageCost
from tunesmith.costmodel.structure import Shaper, structure
from tunesmith.costmodel.values import product
from tunesmith.costmodel.view import Part as Seen
from tunesmith.costmodel.view import view
from tunesmith.ir.expr import loads
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
    seen = view(Shaper(state, {}), machine)
    return Anatomy(state, sketch, machine, tuple(_part(p, machine, formulas) for p in seen.parts))


def _part(part: Seen, machine: Machine, formulas: dict[str, str]) -> Part:
    shape, body, work = part.shape, part.body, part.work
    fmas = float(body.vectors) * max(instructions(shape.stage), 1e-9)
    passes = product(x.extent for x in shape.serial) if work is None else work.passes
    return Part(
        name=shape.name,
        formula=formulas.get(shape.name) or f"a copy of {shape.reads[0].tensor} in the order of its reads",
        is_copy=shape.stage is None,
        reduces=shape.reduces,
        reuses=shape.reduces and _reuses(shape.stage),
        cost=part.cost,
        loads_per_fma=float(body.load_instructions) / fmas,
        accumulators=float(body.accumulators),
        unrolled=float(body.vectors),
        passes=float(passes),
        lanes_used=float(body.width) / (float(body.native) * machine.lanes),
        wasted=0.0 if work is None else max(0.0, 1.0 - work.needed / float(work.points)),
    )


def _reuses(stage: Stage | None) -> bool:
    """Whether some operand stays the same along some axis."""
    axes = {a.name for a in stage.all_axes if a.extent > 1} if stage else set()
    return stage is not None and any(
        not axes <= {n for i in x.index for n in i.names} for x in loads(stage.body)
    )
