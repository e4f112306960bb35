"""Everything that is known about a population of one sketch, computed once and shared by all columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from tunesmith.costmodel.body import Body, body_of
from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.memory import Memory
from tunesmith.costmodel.operations import KINDS, Operations, operations
from tunesmith.costmodel.prior import StageCost, stage_cost
from tunesmith.costmodel.structure import Access, Shaper, StageShape
from tunesmith.costmodel.values import Value, largest, product, total
from tunesmith.costmodel.work import Work, Worker
from tunesmith.ir.cost import flops, min_bytes, stage_flops
from tunesmith.ir.expr import loads
from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.program import Program, Stage

__all__ = ["Part", "Task", "View", "task_of", "view"]


@dataclass(frozen=True)
class Part:
    """A stage, or a packing copy (``work`` is None)."""

    shape: StageShape
    body: Body
    memory: Memory
    work: Work | None
    cost: StageCost


@dataclass(frozen=True)
class Task:
    """What a program is, whatever its schedule. ``main``: the stage with most operations, whose extents
    ``reduction``, ``window`` (of the part of the reduction along which operands overlap) and ``last`` are."""

    flops: float
    intensity: float
    reuse: float
    reduction: float
    window: float
    last: float


@dataclass(frozen=True)
class View:
    """``main``: the stage with most operations; ``parts``: all stages and copies."""

    machine: Machine
    task: Task
    parts: Sequence[Part]
    main: Part
    work: Work

    @cached_property
    def prior(self) -> Value:
        """Seconds."""
        return total(p.cost.time for p in self.parts)

    @cached_property
    def second(self) -> Value:
        """Seconds of what takes longest beside the main stage."""
        return largest(p.cost.time for p in self.parts if p is not self.main)

    @cached_property
    def copying(self) -> Value:
        """Seconds that packing takes."""
        return total(p.cost.time for p in self.parts if p.work is None)

    def copied(self, inside: bool) -> Value:
        """Bytes packed at the start, or inside of loops."""
        copies = (p for p in self.parts if p.work is None)
        return total(
            product(x.extent for x in p.shape.loops) * p.shape.write.element_bytes
            for p in copies
            if inside is any(not x.own for x in p.shape.loops)
        )

    @cached_property
    def executed(self) -> dict[str, Value]:
        """Operations of each kind in a whole call, elements that are computed twice included."""
        found = [(p.work, _operations(p)) for p in self.parts if p.work is not None]
        return {
            kind: total(w.points * n for w, mine in found if (n := float(getattr(mine, kind))))
            for kind in KINDS
        }

    @cached_property
    def mix(self) -> Operations:
        """Operations of one element of the main stage."""
        return _operations(self.main)

    def waste(self, kind: str) -> Value:
        """How many times what is needed is computed along ``lane``, ``rows`` or ``reduce`` axes of the main
        stage: points of vectors as issued, of others as executed."""
        return product(n for a, n in self._ratios if a == kind)

    @cached_property
    def _ratios(self) -> list[tuple[str, Value]]:
        stage, vector = self._stage, self.main.shape.vector
        lane = None if vector is None else vector.name.removeprefix(f"{stage.name}.").split(".")[0]
        reduce = {a.name for a in stage.reduce_axes}
        out = []
        for axis in stage.all_axes:
            done = self.work.axes[axis.name]
            if axis.name == lane:
                out.append(("lane", done.vectors * (self.machine.lanes / axis.extent)))
            else:
                kind = "reduce" if axis.name in reduce else "rows"
                out.append((kind, done.points * (1 / axis.extent)))
        return out

    @property
    def _stage(self) -> Stage:
        assert self.main.shape.stage is not None
        return self.main.shape.stage

    @cached_property
    def operands(self) -> tuple[Access | None, Access | None]:
        """The two largest tensors that the main stage reads."""
        reads = sorted(self.main.shape.reads, key=lambda a: -a.whole)
        return (reads[0] if reads else None), (reads[1] if len(reads) > 1 else None)

    def reuse(self, n: int) -> tuple[Value, Value]:
        """Count and distance in bytes of an operand's reuse; 1 and nothing of one that is not there."""
        access = self.operands[n]
        return (1.0, 0.0) if access is None else self.main.memory.reuse(access)

    @cached_property
    def chunks(self) -> Value:
        """Trips of parallel loops."""
        return product(x.extent for x in self.main.shape.loops if x.kind is LoopKind.PARALLEL)


def _operations(part: Part) -> Operations:
    return Operations() if part.shape.stage is None else operations(part.shape.stage)


def view(shaper: Shaper, machine: Machine) -> View:
    """All parts of a sketch for the population that the shaper has the knobs of."""
    worker = Worker(shaper, machine.lanes)
    parts = [_part(shape, worker, machine) for shape in shaper.shapes()]
    task, name = task_of(shaper.program)
    main = next(p for p in parts if p.shape.name == name)
    assert main.work is not None
    return View(machine, task, parts, main, main.work)


def _part(shape: StageShape, worker: Worker, machine: Machine) -> Part:
    body, memory = body_of(shape, machine.lanes), Memory(shape, machine)
    if shape.stage is None:
        return Part(shape, body, memory, None, stage_cost(shape, body, memory, machine))
    work = worker.work(shape.stage)
    return Part(shape, body, memory, work, stage_cost(shape, body, memory, machine, work))


@lru_cache(maxsize=64)
def task_of(program: Program) -> tuple[Task, str]:
    """The task that a program is, and the name of its main stage."""
    main = max(program.stages, key=stage_flops)
    needed = flops(program)
    domain = prod(a.extent for a in main.all_axes)
    size = sum(prod(program.tensors[t].shape) for t in main.reads)
    return (
        Task(
            flops=float(needed),
            intensity=needed / min_bytes(program),
            reuse=domain / size if size else 1.0,
            reduction=float(prod(a.extent for a in main.reduce_axes)),
            window=float(_window(main)),
            last=float(next((a.extent for a in reversed(main.axes) if a.extent > 1), 1)),
        ),
        main.name,
    )


def _window(stage: Stage) -> int:
    """Places of the windows that a reduction slides over its operands."""
    sliding = {n for x in loads(stage.body) for i in x.index if len(i.terms) > 1 for n in i.names}
    return prod(a.extent for a in stage.reduce_axes if a.name in sliding)
