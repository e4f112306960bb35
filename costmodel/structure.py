"""The loop structure of a sketch with columns of values in place of numbers.

A sketch is replayed once, with its holes left open, and then filled with a column of values for every knob.
What lowering computes for one candidate (extents, strides, regions) is computed here for a whole population
by the same formulas. Extents are those of whole tiles; ``costmodel.work`` counts what tails make of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.values import Value, ceil, least, most, product
from tunesmith.ir.expr import Expr, Load, loads
from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.program import Program, Stage
from tunesmith.schedule import PREPARE, ROOT, Hole, Pack, Schedule, Sketch, State, replay
from tunesmith.schedule.state import FuseInfo, Plan, SplitInfo

__all__ = ["Access", "Frame", "Leaf", "LoopShape", "Shaper", "StageShape", "knob_values", "structure"]

_STATIC = (LoopKind.UNROLL, LoopKind.VECTOR)


@dataclass(frozen=True)
class LoopShape:
    """A loop around or of a stage. ``own``: it belongs to the stage itself. ``share``: elements along a
    parallel loop, of those that whole tiles in every trip would have."""

    name: str
    extent: Value
    kind: LoopKind
    own: bool
    share: Value = 1.0


@dataclass(frozen=True)
class Access:
    """A tensor read or written. ``strides``: elements moved by one step of each loop (absent: none);
    ``steps``: the same for each dimension of the buffer, whose ``extents`` say how far it goes.

    ``local``: the buffer lives inside a loop; its ``size`` is in elements, ``whole`` that of the tensor.
    """

    tensor: str
    strides: Mapping[str, Value]
    steps: tuple[Mapping[str, Value], ...]
    extents: tuple[Value, ...]
    local: bool
    size: Value
    whole: int
    element_bytes: int

    def moves(self, loop: LoopShape) -> bool:
        return loop.name in self.strides


@dataclass(frozen=True)
class StageShape:
    """``loops`` outermost first, those of the stages it is computed inside included; loops that have one trip
    in every candidate are left out."""

    name: str
    stage: Stage | None  # None: a packing copy
    loops: tuple[LoopShape, ...]
    reads: tuple[Access, ...]
    write: Access
    body: Expr
    attached: bool

    @property
    def reduces(self) -> bool:
        return self.stage is not None and self.stage.reducer is not None

    @cached_property
    def static(self) -> tuple[LoopShape, ...]:
        """Innermost loops without control flow."""
        n = len(self.loops)
        while n and self.loops[n - 1].own and self.loops[n - 1].kind in _STATIC:
            n -= 1
        return self.loops[n:]

    @cached_property
    def serial(self) -> tuple[LoopShape, ...]:
        """The loops around those."""
        return self.loops[: len(self.loops) - len(self.static)]

    @cached_property
    def vector(self) -> LoopShape | None:
        return next((x for x in self.static if x.kind is LoopKind.VECTOR), None)


@dataclass(frozen=True)
class Leaf:
    """An index variable that an axis was split into: one step of it moves ``stride`` along the axis."""

    loop: str
    stride: Value


@dataclass(frozen=True)
class Frame:
    """A stage where it stands. ``axis_steps``: axis -> loop -> how far one step of the loop moves along the
    axis (own and around). ``leaves``: axis -> its own loops, outermost first."""

    loops: tuple[LoopShape, ...]
    extents: Mapping[str, Value]
    axis_steps: Mapping[str, Mapping[str, Value]]
    leaves: Mapping[str, tuple[Leaf, ...]]


def knob_values(sketch: Sketch, population: NDArray[np.int64]) -> dict[str, Value]:
    """The value of every knob for every candidate (row) of a population of knob indices."""
    return {
        k.name: np.asarray(k.values, dtype=np.float64)[population[:, i]] if len(k.values) > 1 else k.values[0]
        for i, k in enumerate(sketch.knobs)
    }


def structure(program: Program, sketch: Sketch) -> State:
    """The loop structure of a sketch, its holes left open; the same for all candidates."""
    return replay(program, Schedule(sketch.steps))


@dataclass
class Shaper:
    """The shapes of all stages and packing copies of a sketch, given a column of values for each knob."""

    state: State
    values: Mapping[str, Value]
    frames: dict[str, Frame] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.state.program

    def shapes(self) -> list[StageShape]:
        """Of every stage, and of every packing copy that is made in each run."""
        packs = [p for p in self.state.packs if p.at != PREPARE]
        return [self._stage(s) for s in self.program.stages] + [self._pack(p) for p in packs]

    # -- frames -------------------------------------------------------------------------------------------

    def frame(self, name: str) -> Frame:
        if name not in self.frames:
            self.frames[name] = self._frame(self.program.stage(name))
        return self.frames[name]

    def _frame(self, stage: Stage) -> Frame:
        plan = self.state.plans[stage.name]
        extents: dict[str, Value] = {a.name: float(a.extent) for a in stage.all_axes}
        base: dict[str, dict[str, Value]] = {a.name: {} for a in stage.all_axes}
        around: tuple[LoopShape, ...] = ()
        if plan.at is not None:
            around = self._around(*plan.at)
            opened = {x.name for x in around}
            for axis, (width, steps) in zip(stage.axes, self._region(stage, opened), strict=True):
                extents[axis.name] = least(width, float(axis.extent))
                base[axis.name] = steps
        leaves = self._leaves(stage, extents)
        loops = tuple(
            LoopShape(
                f"{stage.name}.{leaf}", extents[leaf], plan.kind(loop), True,
                _share(plan, extents, leaf) if plan.kind(loop) is LoopKind.PARALLEL else 1.0,
            )
            for loop in plan.loops
            for leaf in plan.leaves(loop)
        )  # fmt: skip
        mine = {a: base[a] | {f"{stage.name}.{x.loop}": x.stride for x in leaves[a]} for a in base}
        return Frame((*around, *loops), extents, mine, leaves)

    def _around(self, host: str, loop: str) -> tuple[LoopShape, ...]:
        plan = self.state.plans[host]
        inner = plan.loops[plan.loops.index(loop) + 1 :]
        inside = {f"{host}.{leaf}" for x in inner for leaf in plan.leaves(x)}
        loops = self.frame(host).loops
        return tuple(replace(x, own=False) for x in loops if x.name not in inside)

    def _leaves(self, stage: Stage, extents: dict[str, Value]) -> dict[str, tuple[Leaf, ...]]:
        """The loops of each axis, filling in the extents of all loops on the way."""
        leaves: dict[str, tuple[Leaf, ...]] = {a.name: (Leaf(a.name, 1.0),) for a in stage.all_axes}
        for d in self.state.plans[stage.name].derivations:
            if isinstance(d, FuseInfo):
                extents[d.name] = extents[d.first] * extents[d.second]
                continue
            axis = next(a for a, mine in leaves.items() if any(x.loop == d.parent for x in mine))
            n, parent = next((n, x) for n, x in enumerate(leaves[axis]) if x.loop == d.parent)
            parts = self._parts(d, parent.stride, extents)
            leaves[axis] = (*leaves[axis][:n], *parts, *leaves[axis][n + 1 :])
        return leaves

    def _parts(self, d: SplitInfo, scale: Value, extents: dict[str, Value]) -> tuple[Leaf, ...]:
        """The parts of a split, outermost first; a tile larger than the loop is as long as the loop."""
        stride: Value = 1.0
        parts = []
        for part, size in zip(reversed(d.parts[1:]), reversed(d.factors), strict=True):
            factor = self.values[size.knob] if isinstance(size, Hole) else float(size)
            extents[part] = least(factor, ceil(extents[d.parent] / stride))
            parts.append(Leaf(part, scale * stride))
            stride = stride * factor
        extents[d.parts[0]] = ceil(extents[d.parent] / stride)
        return (Leaf(d.parts[0], scale * stride), *reversed(parts))

    def _region(self, producer: Stage, opened: set[str]) -> list[tuple[Value, dict[str, Value]]]:
        """Width needed of each dimension of a producer, and how opened loops move its first element."""
        out: list[tuple[Value, dict[str, Value]]] = []
        readers = [(r, x) for r in self.program.consumers(producer.name) for x in loads(r.body)]
        readers = [(r, x) for r, x in readers if x.tensor == producer.name]
        for d in range(len(producer.axes)):
            width: Value = 1.0
            steps: dict[str, Value] = {}
            offsets = [x.index[d].const for _, x in readers]
            for reader, load in readers:
                w, steps = self._span(reader, load, d, opened)
                width = most(width, w)
            out.append((width + (max(offsets) - min(offsets)), steps))
        return out

    def _span(self, reader: Stage, load: Load, d: int, opened: set[str]) -> tuple[Value, dict[str, Value]]:
        """What one load needs: all that the reader's axes reach inside the opened loops."""
        frame = self.frame(reader.name)
        width: Value = 1.0
        steps: dict[str, Value] = {}
        extents = {x.name: x.extent for x in frame.loops}
        ends = {a.name: a.extent - 1.0 for a in reader.all_axes}
        for axis, c in load.index[d].terms:
            reach: Value = 0.0
            for loop, step in frame.axis_steps[axis].items():
                if loop in opened:
                    steps[loop] = steps.get(loop, 0.0) + c * step
                else:
                    reach = reach + step * (extents[loop] - 1)
            width = width + abs(c) * least(reach, ends[axis])
        return width, steps

    # -- stages -------------------------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> StageShape:
        frame = self.frame(stage.name)
        reads = tuple(self._read(stage, load) for load in dict.fromkeys(loads(stage.body)))
        write = self._access(stage.name, stage.name, [{axis.name: 1} for axis in stage.axes])
        attached = self.state.plans[stage.name].at is not None
        return StageShape(stage.name, stage, _wide(frame.loops), reads, write, stage.terms[1], attached)

    def _read(self, stage: Stage, load: Load) -> Access:
        pack = self.state.packed.get((stage.name, load.tensor))
        if pack is not None:
            return self._packed_access(pack, {loop: loop for loop in pack.loops})
        return self._access(stage.name, load.tensor, [dict(i.terms) for i in load.index])

    def _access(self, stage: str, tensor: str, index: Sequence[Mapping[str, int]]) -> Access:
        frame = self.frame(stage)
        t = self.program.tensors[tensor]
        plan = self.state.plans.get(tensor)
        local = plan is not None and plan.at is not None
        extents: list[Value] = [float(n) for n in t.shape]
        hidden: set[str] = set()
        if local:
            producer = self.frame(tensor)
            own = self.program.stage(tensor)
            order = self.state.storage_order(own)
            extents = [producer.extents[own.axes[d].name] for d in order]
            index = [index[d] for d in order]
            hidden = {x.name for x in producer.loops if not x.own}
        hidden |= {x.name for x in frame.loops if isinstance(x.extent, float) and x.extent == 1.0}
        steps: list[dict[str, Value]] = []
        for terms in index:
            moved: dict[str, Value] = {}
            for axis, c in terms.items():
                for loop, step in frame.axis_steps[axis].items():
                    if loop not in hidden:
                        moved[loop] = moved.get(loop, 0.0) + c * step
            steps.append(moved)
        whole = t.size_bytes // t.dtype.size_bytes
        return _flat(tensor, steps, extents, local, whole, t.dtype.size_bytes)

    def _packed_access(self, pack: Pack, rename: Mapping[str, str]) -> Access:
        bounds = {x.name: x.extent for x in self.frame(pack.stage).loops}
        extents = [bounds[loop] for loop in pack.loops]
        steps: list[dict[str, Value]] = [
            {rename[loop]: 1.0} if not isinstance(extent, float) or extent != 1.0 else {}
            for loop, extent in zip(pack.loops, extents, strict=True)
        ]
        t = self.program.tensors[pack.tensor]
        whole = t.size_bytes // t.dtype.size_bytes
        return _flat(pack.result, steps, extents, False, whole, t.dtype.size_bytes)

    def _pack(self, pack: Pack) -> StageShape:
        stage = self.program.stage(pack.stage)
        frame = self.frame(pack.stage)
        load = next(x for x in loads(stage.body) if x.tensor == pack.tensor)
        rename = {loop: f"{pack.result}.{n}" for n, loop in enumerate(pack.loops)}
        bounds = {x.name: x.extent for x in frame.loops}
        around: tuple[LoopShape, ...] = ()
        if pack.at != ROOT:
            names = [x.name for x in frame.loops]
            around = frame.loops[: names.index(pack.at) + 1]
        last = len(pack.loops) - 1
        loops = tuple(
            LoopShape(rename[x], bounds[x], LoopKind.VECTOR if n == last else LoopKind.SERIAL, True)
            for n, x in enumerate(pack.loops)
        )
        source = self._access(pack.stage, pack.tensor, [dict(i.terms) for i in load.index])
        steps = [{rename[k]: v for k, v in step.items() if k in rename} for step in source.steps]
        source = _flat(source.tensor, steps, source.extents, source.local, source.whole, source.element_bytes)
        write = self._packed_access(pack, rename)
        body = Load(pack.tensor, load.index)
        return StageShape(pack.result, None, _wide((*around, *loops)), (source,), write, body, False)


def _share(plan: Plan, extents: Mapping[str, Value], loop: str) -> Value:
    """Of the tiles of one loop, whose last trip may not need a whole one."""
    d = next((d for d in plan.derivations if isinstance(d, SplitInfo) and d.parts[0] == loop), None)
    return 1.0 if d is None else least(extents[d.parent] / product(extents[x] for x in d.parts), 1.0)


def _wide(loops: tuple[LoopShape, ...]) -> tuple[LoopShape, ...]:
    """Loops that have more than one trip in some candidate."""
    return tuple(x for x in loops if not isinstance(x.extent, float) or x.extent != 1.0)


def _flat(
    tensor: str,
    steps: Sequence[dict[str, Value]],
    extents: Sequence[Value],
    local: bool,
    whole: int,
    element_bytes: int,
) -> Access:
    """An access with the strides that its steps make in a row-major buffer."""
    strides: dict[str, Value] = {}
    scale: Value = 1.0
    for moved, extent in zip(reversed(steps), reversed(extents), strict=True):
        for loop, step in moved.items():
            strides[loop] = strides.get(loop, 0.0) + step * scale
        scale = scale * extent
    return Access(tensor, strides, tuple(steps), tuple(extents), local, scale, whole, element_bytes)
