"""Multi-level tiling with a register tile, for reductions that vectorize along a spatial axis.

The consumer (an elementwise stage of the same shape, or the copy that a cache write makes) holds the tiles:

    outer tiles of every axis, middle tiles, then one register tile: rows × vectors × lanes
      the reduction, into a local buffer that becomes registers
      the consumer, over the register tile

Variants: the order of the outer and of the middle loops, operands packed or not, where producers stand.
"""

from dataclasses import dataclass
from itertools import product

from tunesmith.ir.expr import loads
from tunesmith.ir.program import Program, Stage
from tunesmith.schedule import (
    PREPARE,
    ROOT,
    CacheWrite,
    ComputeAt,
    Fuse,
    IllegalStep,
    Pack,
    Parallel,
    Reorder,
    Split,
    Step,
    Unroll,
    Vectorize,
)
from tunesmith.search.analysis import (
    flat_stride,
    is_constant,
    is_expensive,
    lane_axis,
    reads_pointwise,
    shared_axes,
)
from tunesmith.search.draft import Draft
from tunesmith.search.rules.base import Hardware, sizes
from tunesmith.search.rules.vectors import lane_choices, vectorize_last

__all__ = ["MultiLevelTiling"]

_PEEL, _OVERLAP, _MASK = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Variant:
    outer_rows_first: bool
    middle_rows_first: bool
    packed: tuple[tuple[str, str], ...]  # tensor, where
    producers_inside: bool

    @property
    def label(self) -> str:
        order = "".join("ri" if x else "vi" for x in (self.outer_rows_first, self.middle_rows_first))
        packs = "".join(f" pack {t} at {at}" for t, at in self.packed)
        return f"{order}{packs}{' sliced' if self.producers_inside else ''}"


@dataclass(frozen=True)
class MultiLevelTiling:
    name: str = "multi-level tiling"
    middle_most: int = 128
    max_unrolled: int = 256

    def apply(self, draft: Draft, stage: str, hardware: Hardware) -> list[Draft]:
        anchor = self._anchor(draft, stage)
        if anchor is None:
            return []
        lane = lane_axis(draft.program, draft.stage(anchor), _packable(draft.program, draft.stage(anchor)))
        if lane is None:
            return []
        out = []
        for variant in self._variants(draft.program, draft.stage(anchor), lane):
            try:
                out.append(self._build(draft, stage, anchor, lane, variant, hardware))
            except IllegalStep:
                continue
        return out

    def _anchor(self, draft: Draft, stage: str) -> str | None:
        """The reduction: the stage itself, or what an elementwise stage reads at its own index alone."""
        s = draft.stage(stage)
        if s.reducer is not None:
            return stage
        for name in s.reads:
            producer = draft.program.stage_by_name.get(name)
            if producer is None or producer.reducer is None or name in draft.done:
                continue
            alone = draft.program.consumers(name) == (s,) and name not in draft.program.outputs
            if not alone or not reads_pointwise(s, producer):
                continue
            if lane_axis(draft.program, producer, _packable(draft.program, producer)) is not None:
                return name
        return None

    def _variants(self, program: Program, anchor: Stage, lane: str) -> list[_Variant]:
        must: list[tuple[str, str]] = []
        may: list[tuple[str, str]] = []
        for load in loads(anchor.body):
            stride = flat_stride(program, load, lane)
            if load.tensor not in _packable(program, anchor) or not stride:
                continue
            where = PREPARE if is_constant(program, load.tensor) else ROOT
            (may if stride == 1 else must).append((load.tensor, where))
        packs = [tuple(must)] if not may else [tuple(must), (*must, *may)]
        producers = [n for n in anchor.reads if n in program.stage_by_name]
        tiled_rows = len([a for a in anchor.axes if a.extent > 1]) > 1
        orders = list(product((True, False), repeat=2)) if tiled_rows else [(True, True)]
        return [
            _Variant(outer, middle, tuple(dict.fromkeys(packed)), inside)
            for packed in packs
            for outer, middle in orders
            for inside in ((True, False) if producers else (False,))
        ]

    def _build(
        self, draft: Draft, root: str, anchor: str, lane: str, variant: _Variant, hardware: Hardware
    ) -> Draft:
        if root == anchor:
            draft = draft.do(CacheWrite(root))
            anchor = f"{root}.acc"
        tiles = _Tiles(draft, root, anchor, lane, variant, hardware, self)
        draft = tiles.draft
        draft = self._producers(draft, root, anchor, tiles.host, variant, hardware)
        draft = draft.do(ComputeAt(anchor, root, tiles.innermost))
        draft = tiles.anchor_loops(draft)
        for tensor, at in variant.packed:
            draft = draft.do(Pack(anchor, tensor, tiles.pack_order(draft, tensor), at))
        return draft.finish(root, anchor, label=variant.label)

    def _producers(
        self, draft: Draft, root: str, anchor: str, host: str, variant: _Variant, hardware: Hardware
    ) -> Draft:
        """Elementwise operands of the reduction (padding, activations) computed slice by slice."""
        if not variant.producers_inside:
            return draft
        for name in draft.stage(anchor).reads:
            producer = draft.program.stage_by_name.get(name)
            if producer is None or producer.reducer is not None or len(draft.program.consumers(name)) != 1:
                continue
            if is_expensive(producer):
                continue
            draft = draft.do(ComputeAt(name, root, host))
            draft = vectorize_last(draft, name, hardware, unroll=False).finish(name)
        return draft


def _packable(program: Program, stage: Stage) -> frozenset[str]:
    """Operands worth copying: inputs read at one index, again and again, or known before the run."""
    out = set()
    for tensor in stage.reads:
        reads = {x.index for x in loads(stage.body) if x.tensor == tensor}
        names = {n for index in reads for i in index for n in i.names}
        reused = any(a.extent > 1 and a.name not in names for a in stage.axes)
        is_input = any(t.name == tensor for t in program.inputs)
        if is_input and len(reads) == 1 and (reused or is_constant(program, tensor)):
            out.add(tensor)
    return frozenset(out)


class _Tiles:
    """The loops of one tiled group: splits the root, orders its loops, and later the reduction's."""

    def __init__(
        self, draft: Draft, root: str, anchor: str, lane: str, variant: _Variant,
        hardware: Hardware, rule: MultiLevelTiling,
    ) -> None:  # fmt: skip
        self.root, self.anchor, self.lane = root, anchor, lane
        self.hardware, self.rule = hardware, rule
        stage = draft.stage(root)
        reduction = draft.stage(anchor)
        axes = [a for a in stage.axes if a.extent > 1]
        names = dict(zip((a.name for a in stage.axes), (a.name for a in reduction.axes), strict=True))
        self.anchor_name = names
        lane = next(a for a, b in names.items() if b == lane)
        batch = {a for a, b in names.items() if b in shared_axes(reduction) and a != lane}
        rows = [a for a in axes if a.name != lane and a.name not in batch]
        if not rows:  # nothing is reused: the batch axes themselves make the rows
            rows = [a for a in axes if a.name != lane]
        self.rows = rows[-2:]
        self.loose = [a.name for a in axes if a.name != lane and a not in self.rows]
        self.lane_root = lane
        self.draft = draft
        self._split(variant)
        self._order(variant)

    def _split(self, variant: _Variant) -> None:
        d, root, hw = self.draft, self.root, self.hardware
        stage = d.stage(root)
        packed = bool(variant.packed)
        budget = hw.registers - 2
        knobs: list[str] = []
        for axis in self.rows:
            d, reg = d.hole(f"{root}.{axis.name}.reg", tuple(range(1, min(budget, axis.extent) + 1)))
            d, mid = d.hole(f"{root}.{axis.name}.mid", sizes(axis.extent, self.rule.middle_most))
            d, tail = d.hole(f"{root}.{axis.name}.tail", (_PEEL, _OVERLAP))
            d = d.do(Split(root, axis.name, (mid, reg), tail))
            d = d.cap((reg.knob, mid.knob), max(axis.extent, 2))
            knobs.append(reg.knob)
        extent = next(a.extent for a in stage.axes if a.name == self.lane_root)
        d, self.lanes = d.hole(f"{root}.lanes", lane_choices(extent, hw.lanes))
        vectors = max(1, min(8, -(-extent // hw.lanes)))
        d, self.vectors = d.hole(f"{root}.vectors", tuple(range(1, vectors + 1)))
        d, mid = d.hole(f"{root}.{self.lane_root}.mid", sizes(-(-extent // hw.lanes), 64))
        d, tail = d.hole(f"{root}.{self.lane_root}.tail", (_PEEL, _MASK) if packed else (_PEEL, _OVERLAP))
        factors = (mid, self.vectors, self.lanes)
        d = d.do(Split(root, self.lane_root, factors, tail))
        self.register_knobs = (*knobs, self.vectors.knob)
        d = d.cap(self.register_knobs, budget)
        self.draft = d

    def _order(self, variant: _Variant) -> None:
        d, root = self.draft, self.root
        rows = [a.name for a in self.rows]
        lane = self.lane_root

        def level(n: int, rows_first: bool) -> list[str]:
            mine = [f"{a}.{n}" for a in rows]
            return [*mine, f"{lane}.{n}"] if rows_first else [f"{lane}.{n}", *mine]

        outer = [*self.loose, *level(0, variant.outer_rows_first)]
        middle = level(1, variant.middle_rows_first)
        register = [*(f"{a}.2" for a in rows), f"{lane}.2", f"{lane}.3"]
        d = d.do(Reorder(root, (*outer, *middle, *register)))
        ones = [a.name for a in d.stage(root).axes if a.extent == 1]
        d = d.do(Reorder(root, (*ones, *outer, *middle, *register))) if ones else d
        if self.hardware.threads > 1:
            fused = outer[0]
            for loop in outer[1:]:
                d = d.do(Fuse(root, fused, loop))
                fused = f"{fused}*{loop}"
            if ones:
                d = d.do(Reorder(root, (fused, *ones)))
            d = d.do(Parallel(root, fused))
            self.host = fused if not ones else ones[-1]
        else:
            self.host = outer[-1]
        self.innermost = middle[-1]
        steps: list[Step] = [Unroll(root, f"{a}.2") for a in rows]
        d = d.do(*steps, Unroll(root, f"{lane}.2"), Vectorize(root, f"{lane}.3"))
        self.draft = d

    def anchor_loops(self, d: Draft) -> Draft:
        """The reduction inside the register tile: reduce loops, the last unrolled, then the tile."""
        anchor, stage = self.anchor, d.stage(self.anchor)
        reduce = [a.name for a in stage.reduce_axes]
        last = stage.reduce_axes[-1]
        choices = tuple(u for u in (1, 2, 4, 8) if u <= last.extent)
        d, unroll = d.hole(f"{self.root}.{last.name}.unroll", choices)
        d = d.cap((*self.register_knobs, unroll.knob), self.rule.max_unrolled)
        d = d.do(Split(anchor, last.name, (unroll,)), Split(anchor, self.lane, (self.lanes,)))
        loops = [*reduce[:-1], f"{last.name}.0", f"{last.name}.1"]
        tile = [a.name for a in stage.axes if a.name != self.lane]
        order = (*loops, *tile, f"{self.lane}.0", f"{self.lane}.1")
        steps: list[Step] = [Reorder(anchor, order), Unroll(anchor, f"{last.name}.1")]
        steps += [Unroll(anchor, t) for t in (*tile, f"{self.lane}.0")]
        return d.do(*steps, Vectorize(anchor, f"{self.lane}.1"))

    def pack_order(self, d: Draft, tensor: str) -> tuple[str, ...]:
        """Loops in the order in which the operand is read: outer tiles, reduce loops, then the tile."""
        stage = d.stage(self.anchor)
        load = next(x for x in loads(stage.body) if x.tensor == tensor)
        names = {n for i in load.index for n in i.names}
        around = []
        for loop in d.state.plans[self.root].loops:
            for leaf in d.state.plans[self.root].leaves(loop):
                axis = leaf.split(".")[0]
                inside = leaf.endswith((".2", ".3")) and "." in leaf
                if self.anchor_name[axis] in names and not inside:
                    around.append(f"{self.root}.{leaf}")
        own = [f"{self.anchor}.{x}" for x in d.state.plans[self.anchor].loops if x.split(".")[0] in names]
        return (*around, *own)
