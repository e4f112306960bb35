"""Dot products: reductions whose lanes are along the reduction, because no spatial axis is long enough.

The reduction is factored into vectors of partial results; a register tile of such vectors is filled, then
each is summed up across its lanes:

    loops over what reuses nothing, outer and middle tiles of up to two axes along which operands are reused
      partial results: reduce loops, then the register tile, lanes innermost
      the sums across lanes
      the consumer, over the register tile
"""

from dataclasses import dataclass

from tunesmith.ir.expr import loads
from tunesmith.ir.program import Stage
from tunesmith.schedule import (
    PREPARE,
    ROOT,
    CacheWrite,
    ComputeAt,
    Fuse,
    IllegalStep,
    Inline,
    Pack,
    Parallel,
    Reorder,
    RFactor,
    Split,
    Step,
    Unroll,
    Vectorize,
)
from tunesmith.search.analysis import flat_stride, has_reuse, is_constant, lane_axes
from tunesmith.search.draft import Draft
from tunesmith.search.rules.base import Hardware, sizes, thinned
from tunesmith.search.rules.operands import Place, anchor_of, packable, padded, places

__all__ = ["DotProducts"]

_PEEL, _OVERLAP = 0, 1


@dataclass(frozen=True)
class DotProducts:
    name: str = "dot products"
    middle_most: int = 64
    max_unrolled: int = 128

    def apply(self, draft: Draft, stage: str, hardware: Hardware, most: int) -> list[Draft]:
        anchor = anchor_of(draft, stage, self._axis)
        if anchor is None or not _lacks_lanes(draft, anchor, hardware):
            return []
        axis = self._axis(draft, anchor)
        assert axis is not None
        out = []
        choices = [p for p in places(draft, anchor) if p is not Place.SLICED]  # a slice would be a row here
        for place in thinned(choices, most):
            try:
                out.append(self._build(draft, stage, anchor, axis, place, hardware))
            except IllegalStep:
                continue
        return out

    def _axis(self, draft: Draft, name: str) -> str | None:
        """The last reduce axis along which every operand lies close, or can be packed to."""
        stage = draft.stage(name)
        if stage.reducer is None or not has_reuse(stage):
            return None
        movable = packable(draft.program, stage)
        for axis in reversed(stage.reduce_axes):
            strides = {x.tensor: flat_stride(draft.program, x, axis.name) for x in loads(stage.body)}
            if 0 in strides.values() or 1 not in strides.values():
                continue
            if all(n == 1 or t in movable for t, n in strides.items()):
                return axis.name
        return None

    def _build(
        self, draft: Draft, root: str, anchor: str, axis: str, place: Place, hardware: Hardware
    ) -> Draft:
        if place is Place.ABSENT:
            draft = draft.do(*(Inline(n) for n in padded(draft, anchor)))
        if root == anchor:
            draft = draft.do(CacheWrite(root))
            anchor = f"{root}.acc"
        extent = next(a.extent for a in draft.stage(anchor).reduce_axes if a.name == axis)
        if extent < hardware.lanes:
            raise IllegalStep(anchor, f"{axis} is shorter than a vector")
        draft = draft.do(RFactor(anchor, axis, hardware.lanes))
        core = f"{anchor}.rf"
        rows = _reused(draft.stage(core))
        draft, loop = self._loops(draft, root, anchor, rows, hardware)
        draft = draft.do(ComputeAt(anchor, root, loop), ComputeAt(core, root, loop))
        draft = self._partial(draft, root, core, axis)
        spatial = [a.name for a in draft.stage(anchor).axes]
        lane = draft.stage(anchor).reduce_axes[0].name
        draft = draft.do(*(Unroll(anchor, a) for a in spatial), Vectorize(anchor, lane))
        for tensor, at in self._packs(draft, core):
            draft = draft.do(Pack(core, tensor, _pack_order(draft, root, anchor, core, tensor), at))
        return draft.finish(root, anchor, core, label=f"dots{place}")

    def _loops(
        self, draft: Draft, root: str, anchor: str, rows: list[str], hardware: Hardware
    ) -> tuple[Draft, str]:
        """The root's loops: rows tiled, the register tile unrolled; the loop inside which it is filled."""
        names = [a.name for a in draft.stage(anchor).axes]
        mine = {b: a.name for a, b in zip(draft.stage(root).axes, names, strict=True)}
        tiled = [mine[r] for r in rows]
        extents = {a.name: a.extent for a in draft.stage(root).axes}
        knobs = []
        for a in tiled:
            most = min(hardware.registers - 4, extents[a])
            draft, reg = draft.hole(f"{root}.{a}.reg", tuple(range(1, most + 1)))
            draft, mid = draft.hole(f"{root}.{a}.mid", sizes(extents[a], self.middle_most))
            draft, tail = draft.hole(f"{root}.{a}.tail", (_PEEL, _OVERLAP))
            draft = draft.do(Split(root, a, (mid, reg), tail))
            draft = draft.cap((reg.knob, mid.knob), max(extents[a], 2))
            knobs.append(reg.knob)
        draft = draft.cap(tuple(knobs), hardware.registers - 4)
        loose = [a for a in extents if a not in tiled]
        outer = [*loose, *(f"{a}.0" for a in tiled)]
        middle = [f"{a}.1" for a in tiled]
        tile = [f"{a}.2" for a in tiled]
        draft = draft.do(Reorder(root, (*outer, *middle, *tile)), *(Unroll(root, x) for x in tile))
        if hardware.threads > 1:
            fused = outer[0]
            for x in outer[1:]:
                draft = draft.do(Fuse(root, fused, x))
                fused = f"{fused}*{x}"
            draft = draft.do(Parallel(root, fused))
        return draft, middle[-1]

    def _partial(self, draft: Draft, root: str, core: str, axis: str) -> Draft:
        stage = draft.stage(core)
        *spatial, lane = (a.name for a in stage.axes)
        extent = next(a.extent for a in stage.reduce_axes if a.name == axis)
        draft, hole = draft.hole(f"{root}.{axis}.unroll", tuple(u for u in (1, 2, 4) if u <= extent))
        draft = draft.do(Split(core, axis, (hole,)))
        tile = [k.name for k in draft.knobs if k.name.endswith(".reg") and k.name.startswith(f"{root}.")]
        draft = draft.cap((*tile, hole.knob), self.max_unrolled)
        loops = [f"{a.name}.0" if a.name == axis else a.name for a in stage.reduce_axes]
        steps: list[Step] = [Reorder(core, (*loops, f"{axis}.1", *spatial, lane))]
        steps += [Unroll(core, x) for x in (f"{axis}.1", *spatial)]
        return draft.do(*steps, Vectorize(core, lane))

    def _packs(self, draft: Draft, core: str) -> list[tuple[str, str]]:
        stage = draft.stage(core)
        lane = stage.axes[-1].name
        strided = {x.tensor for x in loads(stage.body) if flat_stride(draft.program, x, lane) != 1}
        return [(t, PREPARE if is_constant(draft.program, t) else ROOT) for t in sorted(strided)]


def _lacks_lanes(draft: Draft, anchor: str, hardware: Hardware) -> bool:
    """Whether no spatial axis is as long as a vector."""
    stage = draft.stage(anchor)
    lanes = lane_axes(draft.program, stage, packable(draft.program, stage))
    return all(a.extent < hardware.lanes for a in stage.axes if a.name in lanes)


def _reused(stage: Stage) -> list[str]:
    """Up to two axes, the last ones along which some operand stays the same."""
    index_names = [{n for i in load.index for n in i.names} for load in loads(stage.body)]
    free = [a.name for a in stage.axes if a.extent > 1 and any(a.name not in names for names in index_names)]
    return free[-2:]


def _pack_order(draft: Draft, root: str, anchor: str, core: str, tensor: str) -> tuple[str, ...]:
    """Loops along which the operand is read: those of the root, then those of the partial results."""
    load = next(x for x in loads(draft.stage(core).body) if x.tensor == tensor)
    names = {n for i in load.index for n in i.names}
    mine = {a.name: b.name for a, b in zip(draft.stage(root).axes, draft.stage(anchor).axes, strict=True)}
    plan = draft.state.plans[root]
    at = draft.state.plans[core].at
    assert at is not None
    around = [x for loop in plan.loops[: plan.loops.index(at[1]) + 1] for x in plan.leaves(loop)]
    outer = [f"{root}.{x}" for x in around if mine[x.split(".")[0]] in names]
    return (*outer, *(f"{core}.{x}" for x in draft.state.plans[core].loops if x.split(".")[0] in names))
