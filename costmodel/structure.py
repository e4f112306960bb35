"""The loop structure of a sketch with arrays in place of numbers.

A sketch is replayed once, with its holes left open, and then filled with a column of values for every knob.
What lowering computes for one candidate (extents, strides, regions) is computed here for a whole population
by the same formulas over arrays; what it decides by proof (exact tails) is left out: extents are those of
whole tiles.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.ir.expr import Expr, Load, loads
from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.padding import share_of_terms
from tunesmith.ir.program import Program, Stage
from tunesmith.schedule import PREPARE, ROOT, TAILS, Hole, Pack, Schedule, Sketch, State, Tail, replay
from tunesmith.schedule.state import FuseInfo, Plan, SplitInfo

__all__ = ["Access", "Array", "LoopShape", "StageShape", "knob_values", "shapes", "structure"]

_IN_FLIGHT = 8  # accumulations that keep two pipes of latency four busy

Array = NDArray[np.float64]
"""One value a candidate."""


@dataclass(frozen=True)
class LoopShape:
    """A loop around or of a stage. ``own``: it belongs to the stage itself. ``share``: steps taken inside, of
    those that whole tiles in every trip would take; for parallel loops."""

    name: str
    extent: Array
    kind: LoopKind
    own: bool
    share: Array | float = 1.0


@dataclass(frozen=True)
class Access:
    """A tensor read or written. ``strides``: elements moved by one step of each loop (absent: none);
    ``steps``: the same for each dimension of the buffer, whose ``extents`` say how far it goes.

    ``local``: the buffer lives inside a loop; its ``size`` is in elements.
    """

    tensor: str
    strides: Mapping[str, Array]
    steps: tuple[Mapping[str, Array], ...]
    extents: tuple[Array, ...]
    local: bool
    size: Array
    element_bytes: int


@dataclass(frozen=True)
class StageShape:
    """``loops`` outermost first, those of the stages it is computed inside included. ``share``: how much of
    its iterations there is anything to compute in."""

    name: str
    stage: Stage | None  # None: a packing copy
    loops: tuple[LoopShape, ...]
    reads: tuple[Access, ...]
    write: Access
    body: Expr
    attached: bool
    prepare: bool = False
    share: Array | float = 1.0

    @property
    def reduces(self) -> bool:
        return self.stage is not None and self.stage.reducer is not None


def knob_values(sketch: Sketch, population: NDArray[np.int64]) -> dict[str, Array]:
    """The value of every knob for every candidate (row) of a population of knob indices."""
    return {
        k.name: np.asarray(k.values, dtype=np.float64)[population[:, i]] for i, k in enumerate(sketch.knobs)
    }


def structure(program: Program, sketch: Sketch) -> State:
    """The loop structure of a sketch, its holes left open; the same for all candidates."""
    return replay(program, Schedule(sketch.steps))


def shapes(state: State, values: Mapping[str, Array], count: int) -> list[StageShape]:
    """Every stage and packing copy of a sketch for a whole population: ``count`` values of each knob."""
    return _Shaper(state, values, count).all()


@dataclass(frozen=True)
class _Frame:
    """``axis_steps``: axis -> loop -> how far one step of the loop moves along the axis (own and around).
    ``share``: steps taken of the loops around, of those of whole tiles."""

    share: Array
    loops: tuple[LoopShape, ...]
    extents: Mapping[str, Array]
    axis_steps: Mapping[str, Mapping[str, Array]]


class _Shaper:
    def __init__(self, state: State, values: Mapping[str, Array], count: int) -> None:
        self.state = state
        self.values = values
        self.program = state.program
        self.ones = np.ones(count)
        self.frames: dict[str, _Frame] = {}
        self.packs = {(p.stage, p.tensor): p for p in state.packs}

    def all(self) -> list[StageShape]:
        out = [self._stage(s) for s in self.program.stages]
        return out + [self._pack(p) for p in self.state.packs]

    # -- frames -------------------------------------------------------------------------------------------

    def frame(self, name: str) -> _Frame:
        if name not in self.frames:
            self.frames[name] = self._frame(self.program.stage(name))
        return self.frames[name]

    def _frame(self, stage: Stage) -> _Frame:
        plan = self.state.plans[stage.name]
        extents: dict[str, Array] = {a.name: self.ones * a.extent for a in stage.all_axes}
        base: dict[str, dict[str, Array]] = {a.name: {} for a in stage.all_axes}
        around: tuple[LoopShape, ...] = ()
        share = self.ones
        if plan.at is not None:
            around = self._around(*plan.at)
            share = self._share_around(*plan.at)
            opened = {x.name for x in around}
            for axis, (width, steps) in zip(stage.axes, self._region(stage, opened), strict=True):
                extents[axis.name] = np.minimum(width, axis.extent)
                base[axis.name] = steps
        strides = self._strides(stage, extents)
        loops = tuple(
            LoopShape(
                f"{stage.name}.{leaf}", extents[leaf], plan.kind(loop), True,
                self._share_of_trips(plan, extents, leaf) if plan.kind(loop) is LoopKind.PARALLEL else 1.0,
            )
            for loop in plan.loops
            for leaf in plan.leaves(loop)
        )  # fmt: skip
        mine = {a: base[a] | {f"{stage.name}.{x}": s for x, s in strides[a].items()} for a in base}
        return _Frame(share, (*around, *loops), extents, mine)

    def _share_around(self, host: str, loop: str) -> Array:
        frame, plan = self.frame(host), self.state.plans[host]
        return frame.share * self._steps(plan, frame.extents, self._inside(host, loop))

    def _steps(self, plan: Plan, extents: Mapping[str, Array], inside: Collection[str] = ()) -> Array:
        """Steps of unrolled code that are taken, of what whole tiles at every level would take; for what is
        computed outside of the loops ``inside``, these go over no more than there is.

        Loops end where their axis does; what may be wasted is part of the last step. A remainder with code
        of its own takes its share of a step, unless so little that the latency of a step is what it takes.
        """
        share = self.ones
        for d in plan.derivations:
            if isinstance(d, FuseInfo):
                continue
            around = math.prod((extents[x] for x in d.parts if x not in inside), start=self.ones)
            tile = math.prod((extents[x] for x in d.parts if x in inside), start=self.ones)
            whole = around * np.minimum(tile, extents[d.parent])
            share = share * np.minimum(self._needed(plan, extents, d) / whole, 1.0)
        return share

    def _share_of_trips(self, plan: Plan, extents: Mapping[str, Array], loop: str) -> Array:
        """The same for the tiles of one loop alone, which its last trip may not need as a whole."""
        d = next((d for d in plan.derivations if isinstance(d, SplitInfo) and d.parts[0] == loop), None)
        if d is None:
            return self.ones
        whole = math.prod((extents[x] for x in d.parts), start=self.ones)
        return np.minimum(self._needed(plan, extents, d) / whole, 1.0)

    def _needed(self, plan: Plan, extents: Mapping[str, Array], d: SplitInfo) -> Array:
        """Elements along a split loop that its unrolled code is taken for."""
        static = [x for x in plan.loops if plan.kind(x) in (LoopKind.UNROLL, LoopKind.VECTOR)]
        vectors = [x for x in static if plan.kind(x) is LoopKind.VECTOR]
        unrolled = math.prod((extents[x] for x in static if x not in vectors), start=self.ones)
        step = math.prod((extents[x] for x in d.parts if x in static), start=self.ones)
        lanes = math.prod((extents[x] for x in d.parts if x in vectors), start=self.ones)
        left = extents[d.parent] % step
        work = np.maximum(np.ceil(left / lanes) * lanes, step * np.minimum(_IN_FLIGHT / unrolled, 1.0))
        work = np.where(self._peels(d), np.minimum(work, step), step)
        needed: Array = extents[d.parent] - left + np.where(left > 0, work, 0.0)
        return needed

    def _peels(self, d: SplitInfo) -> NDArray[np.bool_]:
        if isinstance(d.tail, Hole):
            return np.equal(self.values[d.tail.knob], TAILS.index(Tail.PEEL))
        return np.full(len(self.ones), d.tail is Tail.PEEL)

    def _around(self, host: str, loop: str) -> tuple[LoopShape, ...]:
        inside = {f"{host}.{leaf}" for leaf in self._inside(host, loop)}
        loops = self.frame(host).loops
        return tuple(replace(x, own=False) for x in loops if x.name not in inside)

    def _inside(self, host: str, loop: str) -> set[str]:
        """Index variables of a stage's loops inside one of them."""
        plan = self.state.plans[host]
        return {leaf for x in plan.loops[plan.loops.index(loop) + 1 :] for leaf in plan.leaves(x)}

    def _strides(self, stage: Stage, extents: dict[str, Array]) -> dict[str, dict[str, Array]]:
        """Axis -> leaf loop -> stride, filling in the extents of all loops on the way."""
        strides: dict[str, dict[str, Array]] = {a.name: {a.name: self.ones} for a in stage.all_axes}
        owner = {a.name: a.name for a in stage.all_axes}
        for d in self.state.plans[stage.name].derivations:
            if isinstance(d, FuseInfo):
                extents[d.name] = extents[d.first] * extents[d.second]
                continue
            self._split(d, extents, strides, owner)
        return strides

    def _split(
        self,
        d: SplitInfo,
        extents: dict[str, Array],
        strides: dict[str, dict[str, Array]],
        owner: dict[str, str],
    ) -> None:
        axis = owner[d.parent]
        scale = strides[axis].pop(d.parent)
        stride: Any = self.ones
        for part, size in zip(reversed(d.parts[1:]), reversed(d.factors), strict=True):
            factor = self.values[size.knob] if isinstance(size, Hole) else size
            extents[part] = self.ones * np.minimum(factor, extents[d.parent])
            strides[axis][part], owner[part] = scale * stride, axis
            stride = stride * factor
        outer = d.parts[0]
        extents[outer] = np.ceil(extents[d.parent] / stride)
        strides[axis][outer], owner[outer] = scale * stride, axis

    def _region(self, producer: Stage, opened: set[str]) -> list[tuple[Array, dict[str, Array]]]:
        """Width needed of each dimension of a producer, and how opened loops move its first element."""
        out: list[tuple[Array, dict[str, Array]]] = []
        readers = [(r, x) for r in self.program.consumers(producer.name) for x in loads(r.body)]
        readers = [(r, x) for r, x in readers if x.tensor == producer.name]
        for d in range(len(producer.axes)):
            width = self.ones
            steps: dict[str, Array] = {}
            offsets = [x.index[d].const for _, x in readers]
            for reader, load in readers:
                w, steps = self._span(reader, load, d, opened)
                width = np.maximum(width, w)
            out.append((width + (max(offsets) - min(offsets)), steps))
        return out

    def _span(self, reader: Stage, load: Load, d: int, opened: set[str]) -> tuple[Array, dict[str, Array]]:
        frame = self.frame(reader.name)
        width = self.ones
        steps: dict[str, Array] = {}
        extents = {x.name: x.extent for x in frame.loops}
        for axis, c in load.index[d].terms:
            for loop, step in frame.axis_steps[axis].items():
                if loop in opened:
                    steps[loop] = steps.get(loop, 0.0) + c * step
                else:
                    width = width + abs(c) * step * (extents[loop] - 1)
        return width, steps

    # -- stages -------------------------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> StageShape:
        frame = self.frame(stage.name)
        reads = tuple(self._read(stage, load) for load in dict.fromkeys(loads(stage.body)))
        index = [{axis.name: 1} for axis in stage.axes]
        write = self._access(stage.name, stage.name, index)
        attached = self.state.plans[stage.name].at is not None
        steps = self._steps(self.state.plans[stage.name], frame.extents)
        share = frame.share * steps * share_of_terms(stage)
        return StageShape(stage.name, stage, frame.loops, reads, write, stage.terms[1], attached, share=share)

    def _read(self, stage: Stage, load: Load) -> Access:
        pack = self.packs.get((stage.name, load.tensor))
        if pack is not None:
            return self._packed_access(pack, {loop: loop for loop in pack.loops})
        return self._access(stage.name, load.tensor, [dict(i.terms) for i in load.index])

    def _access(self, stage: str, tensor: str, index: Sequence[Mapping[str, int]]) -> Access:
        frame = self.frame(stage)
        t = self.program.tensors[tensor]
        plan = self.state.plans.get(tensor)
        local = plan is not None and plan.at is not None
        extents = [self.ones * n for n in t.shape]
        hidden: set[str] = set()
        if local:
            producer = self.frame(tensor)
            own = self.program.stage(tensor)
            order = self.state.storage_order(own)
            extents = [producer.extents[own.axes[d].name] for d in order]
            index = [index[d] for d in order]
            hidden = {x.name for x in producer.loops if not x.own}
        steps: list[dict[str, Array]] = []
        for terms in index:
            moved: dict[str, Array] = {}
            for axis, c in terms.items():
                for loop, step in frame.axis_steps[axis].items():
                    if loop not in hidden:
                        moved[loop] = moved.get(loop, 0.0) + c * step
            steps.append(moved)
        return self._flat(tensor, steps, extents, local, t.dtype.size_bytes)

    def _flat(
        self, tensor: str, steps: Sequence[dict[str, Array]], extents: Sequence[Array], local: bool, size: int
    ) -> Access:
        strides: dict[str, Array] = {}
        scale = self.ones
        for moved, extent in zip(reversed(steps), reversed(extents), strict=True):
            for loop, step in moved.items():
                strides[loop] = strides.get(loop, 0.0) + step * scale
            scale = scale * extent
        return Access(tensor, strides, tuple(steps), tuple(extents), local, scale, size)

    def _packed_access(self, pack: Pack, rename: Mapping[str, str]) -> Access:
        bounds = {x.name: x.extent for x in self.frame(pack.stage).loops}
        extents = [bounds[loop] for loop in pack.loops]
        steps = [{rename[loop]: self.ones} for loop in pack.loops]
        size = self.program.tensors[pack.tensor].dtype.size_bytes
        return self._flat(pack.result, steps, extents, False, size)

    def _pack(self, pack: Pack) -> StageShape:
        stage = self.program.stage(pack.stage)
        frame = self.frame(pack.stage)
        load = next(x for x in loads(stage.body) if x.tensor == pack.tensor)
        rename = {loop: f"{pack.result}.{n}" for n, loop in enumerate(pack.loops)}
        bounds = {x.name: x.extent for x in frame.loops}
        around: tuple[LoopShape, ...] = ()
        if pack.at not in (ROOT, PREPARE):
            names = [x.name for x in frame.loops]
            around = frame.loops[: names.index(pack.at) + 1]
        last = len(pack.loops) - 1
        loops = tuple(
            LoopShape(rename[x], bounds[x], LoopKind.VECTOR if n == last else LoopKind.SERIAL, True)
            for n, x in enumerate(pack.loops)
        )
        source = self._access(pack.stage, pack.tensor, [dict(i.terms) for i in load.index])
        moved = tuple({rename[k]: v for k, v in step.items() if k in rename} for step in source.steps)
        strides = {rename[k]: v for k, v in source.strides.items() if k in rename}
        source = Access(
            source.tensor, strides, moved, source.extents, source.local, source.size, source.element_bytes
        )
        write = self._packed_access(pack, rename)
        body = Load(pack.tensor, load.index)
        return StageShape(
            pack.result, None, (*around, *loops), (source,), write, body, False, pack.at == PREPARE
        )
