"""Multi-level tiling with a register tile, for reductions that vectorize along a spatial axis.

The consumer (an elementwise stage of the same shape, or the copy that a cache write makes) holds the tiles:

    outer tiles of every axis, middle tiles, then one register tile: rows × vectors × lanes
      the reduction, into a local buffer that becomes registers
      the consumer, over the register tile

Variants: the order of the outer and of the middle loops, operands packed or not, where producers stand, and
whether the reduction is blocked: then a stage that sums up blocks stands between the two, holding the whole
tile of the outer loops, so that each block's share of an operand stays in the first cache.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

from tunesmith.ir.expr import loads
from tunesmith.ir.program import Stage
from tunesmith.schedule import (
    PREPARE,
    ROOT,
    CacheWrite,
    ComputeAt,
    Fuse,
    Hole,
    IllegalStep,
    Inline,
    Pack,
    Parallel,
    Part,
    Reorder,
    RFactor,
    Split,
    Step,
    Unroll,
    Vectorize,
)
from tunesmith.search.analysis import (
    flat_stride,
    is_constant,
    is_expensive,
    lane_axes,
    shared_axes,
)
from tunesmith.search.draft import Draft
from tunesmith.search.rules.base import Hardware, sizes, thinned
from tunesmith.search.rules.operands import Place, anchor_of, packable, padded, places
from tunesmith.search.rules.vectors import lane_choices, vectorize_last

__all__ = ["MultiLevelTiling"]

_PEEL, _OVERLAP, _MASK = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Variant:
    outer_rows_first: bool
    middle_rows_first: bool
    packed: tuple[tuple[str, str], ...]  # tensor, where
    producers: Place
    lane: str  # the axis that is vectorized
    along: str  # a label, where there is more than one
    chunk: int = 0  # of the last reduce axis; 0: the reduction is not blocked

    @property
    def label(self) -> str:
        order = "".join("ri" if x else "vi" for x in (self.outer_rows_first, self.middle_rows_first))
        packs = "".join(f" pack {t} at {at}" for t, at in self.packed)
        blocks = f" blocks of {self.chunk}" if self.chunk else ""
        return f"{order}{self.along}{packs}{self.producers}{blocks}"


@dataclass(frozen=True)
class MultiLevelTiling:
    name: str = "multi-level tiling"
    middle_most: int = 128
    whole_unroll: int = 8
    max_unrolled: int = 216
    shortest_block: int = 96
    longest_block: int = 640
    largest_tile: int = 1 << 16  # elements that blocks are summed up over: they stay in the second cache

    def apply(self, draft: Draft, stage: str, hardware: Hardware, most: int) -> list[Draft]:
        anchor = anchor_of(draft, stage, self._lanes)
        if anchor is None:
            return []
        out = []
        first, *others = self._lanes(draft, anchor)
        variants = self._variants(draft, anchor, first, "")
        variants += [v for lane in others for v in self._variants(draft, anchor, lane, f" along {lane}")]
        for variant in thinned(variants, most):
            try:
                out.append(self._build(draft, stage, anchor, variant, hardware))
            except IllegalStep:
                continue
        return out

    def _lanes(self, draft: Draft, name: str) -> tuple[str, ...]:
        stage = draft.stage(name)
        return lane_axes(draft.program, stage, packable(draft.program, stage)) if stage.reducer else ()

    def _variants(self, draft: Draft, name: str, lane: str, along: str) -> list[_Variant]:
        program, anchor = draft.program, draft.stage(name)
        must: list[tuple[str, str]] = []
        may: list[tuple[str, str]] = []
        for load in loads(anchor.body):
            stride = flat_stride(program, load, lane)
            if load.tensor not in packable(program, anchor) or not stride:
                continue
            where = PREPARE if is_constant(program, load.tensor) else ROOT
            (may if stride == 1 else must).append((load.tensor, where))
        packs = [tuple(must)] if not may else [tuple(must), (*must, *may)]
        tiled_rows = len([a for a in anchor.axes if a.extent > 1]) > 1
        orders = list(product((True, False), repeat=2)) if tiled_rows else [(True, True)]
        stands = places(draft, name)
        plain = [
            _Variant(outer, middle, tuple(dict.fromkeys(packed)), place, lane, along)
            for packed in packs
            for outer, middle in orders
            for place in stands
        ]
        blocked = [
            _Variant(outer, middle, tuple(dict.fromkeys(packs[-1])), place, lane, along, chunk)
            for chunk in self._chunks(anchor)
            for outer, middle in orders
            for place in stands[:1]
        ]
        return plain + blocked

    def _chunks(self, anchor: Stage) -> tuple[int, ...]:
        """Lengths of blocks along the last reduce axis that make reductions of moderate length."""
        extent = anchor.reduce_axes[-1].extent
        others = prod(a.extent for a in anchor.reduce_axes[:-1])
        halves = [c for n in range(1, 12) if (c := -(-extent // (1 << n))) >= 4]
        lengths = [
            c for c in dict.fromkeys(halves) if self.shortest_block <= c * others <= self.longest_block
        ]
        return tuple(lengths[:2])

    def _build(self, draft: Draft, root: str, anchor: str, variant: _Variant, hardware: Hardware) -> Draft:
        if variant.producers is Place.ABSENT:
            draft = draft.do(*(Inline(n) for n in padded(draft, anchor)))
        if root == anchor:
            draft = draft.do(CacheWrite(root))
            anchor = f"{root}.acc"
        core = anchor
        if variant.chunk:
            axis = draft.stage(anchor).reduce_axes[-1].name
            draft = draft.do(RFactor(anchor, axis, variant.chunk, Part.OUTER))
            core = f"{anchor}.rf"
        tiles = _Tiles(draft, root, core, variant, hardware, self)
        draft = tiles.draft
        if variant.chunk:
            draft = tiles.sum_blocks(draft, anchor, variant.middle_rows_first)
        else:
            draft = draft.do(ComputeAt(core, root, tiles.innermost))
        draft = tiles.anchor_loops(draft)
        draft = self._producers(draft, root, core, tiles.host, variant, hardware)
        draft = draft.slice(root)
        for tensor, at in variant.packed:
            place = ".".join(draft.batch) if draft.batch and at == ROOT else at
            draft = draft.do(Pack(core, tensor, tiles.pack_order(draft, tensor, place), place))
        return draft.finish(root, anchor, core, label=variant.label)

    def _producers(
        self, draft: Draft, root: str, anchor: str, host: str, variant: _Variant, hardware: Hardware
    ) -> Draft:
        """Elementwise operands of the reduction (padding, activations) computed slice by slice.

        Raises IllegalStep when there are none, since that is the variant without slices.
        """
        if variant.producers is not Place.SLICED:
            return draft
        sliced = False
        for name in draft.stage(anchor).reads:
            producer = draft.program.stage_by_name.get(name)
            if producer is None or producer.reducer is not None or len(draft.program.consumers(name)) != 1:
                continue
            if is_expensive(producer):
                continue
            draft = draft.do(ComputeAt(name, root, host))
            draft = vectorize_last(draft, name, hardware).finish(name)
            sliced = True
        if not sliced:
            raise IllegalStep(anchor, "no operand can be sliced")
        return draft


class _Tiles:
    """The loops of one tiled group: splits the root, orders its loops, and later the reduction's."""

    def __init__(
        self, draft: Draft, root: str, anchor: str, variant: _Variant, hardware: Hardware,
        rule: MultiLevelTiling,
    ) -> None:  # fmt: skip
        self.root, self.anchor, self.lane, self.variant = root, anchor, variant.lane, variant
        self.hardware, self.rule = hardware, rule
        stage = draft.stage(root)
        reduction = draft.stage(anchor)
        axes = [a for a in stage.axes if a.extent > 1]
        names = {a.name: b.name for a, b in zip(stage.axes, reduction.axes, strict=False)}
        self.anchor_name = names
        lane = next(a for a, b in names.items() if b == variant.lane)
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
        middles: list[str] = []
        for axis in self.rows:
            most = min(budget, axis.extent)
            if variant.producers is Place.ABSENT and axis is not self.rows[-1]:
                most = 1  # the versions for edges in two directions and for their corners multiply
            d, reg = d.hole(f"{root}.{axis.name}.reg", tuple(range(1, most + 1)))
            d, mid = d.hole(f"{root}.{axis.name}.mid", sizes(axis.extent, self.rule.middle_most))
            d, tail = d.hole(f"{root}.{axis.name}.tail", (_PEEL, _OVERLAP))
            d = d.do(Split(root, axis.name, (mid, reg), tail))
            d = d.cap((reg.knob, mid.knob), max(axis.extent, 2))
            knobs.append(reg.knob)
            middles.append(mid.knob)
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
        if variant.chunk:
            tile = (*self.register_knobs, *middles, mid.knob, self.lanes.knob)
            d = d.cap(tile, self.rule.largest_tile)
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
        d, unrolled = self._unrolled_reduction(d, stage)
        d = d.do(Split(anchor, self.lane, (self.lanes,)))
        loops = [x for a in reduce for x in ([f"{a}.0"] if a in unrolled else [a])]
        loops += [f"{a}.1" for a in reduce if a in unrolled]
        tile = [a.name for a in stage.axes if a.name != self.lane]
        order = (*loops, *tile, f"{self.lane}.0", f"{self.lane}.1")
        steps: list[Step] = [Reorder(anchor, order)]
        steps += [Unroll(anchor, f"{a}.1") for a in reduce if a in unrolled]
        steps += [Unroll(anchor, t) for t in (*tile, f"{self.lane}.0")]
        return d.do(*steps, Vectorize(anchor, f"{self.lane}.1"))

    def _unrolled_reduction(self, d: Draft, stage: Stage) -> tuple[Draft, list[str]]:
        """Knobs for unrolling: the last reduce axis by a factor, a short one before it wholly or not at all
        (windows, whose places share operands)."""
        *before, last = stage.reduce_axes
        choices = {u for u in (1, 4) if u <= last.extent}
        choices |= {last.extent} if last.extent <= self.rule.whole_unroll else set()
        axes = [(last, tuple(sorted(choices)))]
        axes += [(a, (1, a.extent)) for a in before[-1:] if 1 < a.extent <= self.rule.whole_unroll]
        knobs = []
        for axis, values in axes:
            d, hole = d.hole(f"{self.root}.{axis.name}.unroll", values)
            d = d.do(Split(self.anchor, axis.name, (hole,)))
            knobs.append(hole.knob)
        edges = 3 if self.variant.producers is Place.ABSENT else 1  # each with code of its own
        d = d.cap((*self.register_knobs, *knobs), self.rule.max_unrolled // edges)
        return d, [a.name for a, _ in axes]

    def sum_blocks(self, d: Draft, name: str, rows_first: bool) -> Draft:
        """The stage that adds up blocks: computed over the outer loops' tile, the blocks inside it."""
        stage = d.stage(name)
        lane, rows = self.lane, [self.anchor_name[a.name] for a in self.rows]
        d = d.do(ComputeAt(name, self.root, self.host))
        for axis, knob in zip(rows, self.register_knobs[:-1], strict=True):
            d = d.do(Split(name, axis, (Hole(knob),)))
        d = d.do(Split(name, lane, (self.vectors, self.lanes)))
        outer = [f"{a}.0" for a in rows]
        middle = [*outer, f"{lane}.0"] if rows_first else [f"{lane}.0", *outer]
        tile = [*(f"{a}.1" for a in rows), f"{lane}.1"]
        points = [a.name for a in stage.axes if a.name not in (*rows, lane)]
        block = stage.reduce_axes[0].name
        steps: list[Step] = [Reorder(name, (*points, block, *middle, *tile, f"{lane}.2"))]
        steps += [Unroll(name, x) for x in tile]
        d = d.do(*steps, Vectorize(name, f"{lane}.2"))
        return d.do(ComputeAt(self.anchor, name, middle[-1]))

    def pack_order(self, d: Draft, tensor: str, place: str) -> tuple[str, ...]:
        """Loops in the order in which the operand is read: those around, outermost first, then its own."""
        load = next(x for x in loads(d.stage(self.anchor).body) if x.tensor == tensor)
        names = {n for i in load.index for n in i.names}
        own = [f"{self.anchor}.{x}" for x in d.state.plans[self.anchor].loops if x.split(".")[0] in names]
        around = self._around(d, self.anchor, names)
        return (*(around[around.index(place) + 1 :] if place in around else around), *own)

    def _around(self, d: Draft, stage: str, names: set[str]) -> list[str]:
        """Loops that a stage is computed inside and an operand with these axes is read along."""
        at = d.state.plans[stage].at
        if at is None or at == d.batch:
            return []
        host, loop = at
        plan = d.state.plans[host]
        around = plan.loops[: plan.loops.index(loop) + 1]
        leaves = [leaf for x in around for leaf in plan.leaves(x)]
        axes = self.anchor_name if host == self.root else {}
        mine = [f"{host}.{x}" for x in leaves if axes.get(x.split(".")[0], x.split(".")[0]) in names]
        return [*self._around(d, host, names), *mine]
