"""Row by row: elementwise results, reductions along contiguous data, and chains of both.

One root holds the loops over rows; what it needs of a row (maxima, sums, exponentials) is computed inside
that loop and stays in cache. Reductions are factored into vector lanes: several partial results side by side,
joined at the end of the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tunesmith.ir.expr import Load, loads
from tunesmith.ir.program import Program, Stage
from tunesmith.schedule import (
    ComputeAt,
    Fuse,
    IllegalStep,
    Parallel,
    Part,
    Reorder,
    RFactor,
    Split,
    Step,
    Stream,
    Unroll,
    Vectorize,
)
from tunesmith.search.analysis import flat_stride, has_reuse, reduces_contiguously
from tunesmith.search.draft import Draft
from tunesmith.search.rules.base import EVENLY, Hardware, balance, thinned
from tunesmith.search.rules.vectors import lane_choices, vectorize_last

__all__ = ["RowGroup"]

_ROW_ELEMENTS = 1 << 16  # of one member's row: more would not stay in cache
_FEW = 1024  # elements that are computed before threads have started
_MANY = 1 << 15  # elements of few rows that threads share


@dataclass(frozen=True)
class RowGroup:
    """``accumulators``: vectors of partial results a reduction keeps; each number is a sketch. ``rows``: how
    many rows may go together."""

    name: str = "rows"
    accumulators: tuple[int, ...] = (1, 2, 4, 8)
    rows: tuple[int, ...] = (1, 2, 4, 8, 16)
    chunk: int = 8192

    def apply(self, draft: Draft, stage: str, hardware: Hardware, most: int) -> list[Draft]:
        root = draft.stage(stage)
        if root.reducer is not None and not any(a.extent > 1 for a in root.axes):
            split = self._chunks(draft, stage)
            if split is not None:
                return [split]
        if root.reducer is None and (transposed := _transposed(draft, root, hardware)) is not None:
            return transposed
        members = _members(draft, root)
        if _shares_elements(draft, root, members, hardware):
            members = ()
        reducing = [n for n in (stage, *members) if draft.stage(n).reducer is not None]
        counts = self.accumulators if reducing else (1,)
        streams = (False, True) if self._is_large(draft, root, hardware) else (False,)
        out = []
        for count, stream in thinned(list(product(counts, streams)), most):
            try:
                out.append(self._build(draft, stage, members, count, stream, hardware))
            except IllegalStep:
                continue
        return out

    def _is_large(self, draft: Draft, root: Stage, hardware: Hardware) -> bool:
        is_output = root.name in draft.program.outputs and root.reducer is None
        return is_output and root.tensor.size_bytes * 2 >= hardware.last_cache_bytes

    def _chunks(self, draft: Draft, stage: str) -> Draft | None:
        """A reduction to one value becomes rows of partial results, and a short reduction of those."""
        axis = reduces_contiguously(draft.program, draft.stage(stage))
        extent = next((a.extent for a in draft.stage(stage).reduce_axes if a.name == axis), 0)
        if axis is None or extent < 2 * self.chunk:
            return None
        return draft.do(RFactor(stage, axis, self.chunk, Part.OUTER)).finish(stage, label="chunks")

    def _build(
        self, draft: Draft, root: str, members: tuple[str, ...], count: int, stream: bool, hw: Hardware
    ) -> Draft:
        partials: dict[str, str] = {}
        for name in (root, *members):
            if draft.stage(name).reducer is None:
                continue
            draft, partial = _factor(draft, name, count * hw.lanes)
            if partial is not None:
                partials[name] = partial
        draft, loop = self._root_loops(draft, root, hw, block=bool(members or partials))
        if stream:
            draft = draft.do(Stream(root))
        if root in partials:
            draft = _lanes(draft, root, hw)
        for name in (root, *members):  # consumers first: a producer stands where all its readers do
            if name != root:
                draft = draft.do(ComputeAt(name, root, loop))
                reduces = draft.stage(name).reducer is not None
                draft = _lanes(draft, name, hw) if reduces else vectorize_last(draft, name, hw)
                draft = _unroll_rows(draft, name)
            if name in partials:
                draft = _partial(draft, partials[name], root, loop, hw)
        label = (f"x{count}" if partials else "") + (" stream" if stream else "")
        return draft.finish(root, *members, *partials.values(), label=label)

    def _root_loops(self, draft: Draft, root: str, hw: Hardware, block: bool) -> tuple[Draft, str]:
        """Loops over rows outside (together if parallel), the row's elements vectorized inside.

        With ``block``, a few rows (a knob) go together, so that the ends of their reductions overlap.
        """
        stage = draft.stage(root)
        axes = [a.name for a in stage.axes]
        inner = None
        if stage.reducer is None and axes:
            inner = next((a.name for a in reversed(stage.axes) if a.extent > 1), axes[-1])
        rows = [a for a in axes if a != inner]
        if inner is not None and not block and _shares_elements(draft, stage, (), hw):
            return self._shared(draft, root, rows, inner, hw), ""
        is_parallel = hw.threads > 1 and (block or not _is_end(draft, stage))
        if not rows and inner is not None:
            draft = vectorize_last(draft, root, hw)
            if is_parallel:
                draft = draft.do(Parallel(root, draft.state.plans[root].loops[0]))
            return draft, draft.state.plans[root].loops[0]
        if not rows:
            return draft, ""
        if inner is not None:
            draft = draft.do(Reorder(root, (*rows, inner)))
            draft = vectorize_last(draft, root, hw) if inner == axes[-1] else draft
        if block:
            draft, rows = self._block(draft, root, rows)
        loop = rows[0]
        if is_parallel:
            for other in rows[1:]:
                draft = draft.do(Fuse(root, loop, other))
                loop = f"{loop}*{other}"
            return draft.do(Parallel(root, loop)), loop
        return draft, rows[-1]

    def _shared(self, draft: Draft, root: str, rows: list[str], inner: str, hw: Hardware) -> Draft:
        """Few rows: threads share the vectors of all of them."""
        axes = draft.stage(root).axes
        wide = [a.name for a in axes if a.name in rows and a.extent > 1]
        others = [r for r in rows if r not in wide]
        draft = draft.do(Reorder(root, (*rows, inner)))
        loop = inner
        if inner == axes[-1].name:
            draft = vectorize_last(draft, root, hw)
            loop = f"{inner}.0"
        draft = draft.do(Reorder(root, (*wide, loop, *others)))
        for first in reversed(wide):
            draft = draft.do(Fuse(root, first, loop))
            loop = f"{first}*{loop}"
        return draft.do(Parallel(root, loop))

    def _block(self, draft: Draft, root: str, rows: list[str]) -> tuple[Draft, list[str]]:
        """Split the last row axis into blocks of unrolled rows."""
        extents = {a.name: a.extent for a in draft.stage(root).axes}
        axis = rows[-1]
        draft, hole = draft.hole(f"{root}.rows", tuple(r for r in self.rows if r <= extents[axis]))
        draft = draft.do(Split(root, axis, (hole,)), Unroll(root, f"{axis}.1"))
        return draft, [*rows[:-1], f"{axis}.0"]


def _shares_elements(draft: Draft, root: Stage, members: Sequence[str], hw: Hardware) -> bool:
    """Whether threads share the elements of an elementwise stage and not its rows: these are few and long,
    and nothing is reduced in them."""
    if hw.threads == 1 or root.reducer is not None or any(draft.stage(m).reducer for m in members):
        return False
    inner = next((a.extent for a in reversed(root.axes) if a.extent > 1), 1)
    elements = prod(a.extent for a in root.axes)
    return elements >= _MANY and balance(elements // inner, hw.threads) < EVENLY


def _is_end(draft: Draft, root: Stage) -> bool:
    """Whether an elementwise stage is what little is left to do after others."""
    reads = any(n in draft.program.stage_by_name for n in root.reads)
    return root.reducer is None and reads and prod(a.extent for a in root.axes) <= _FEW


def _transposed(draft: Draft, root: Stage, hw: Hardware) -> list[Draft] | None:
    """A copy that reads across its rows goes by square tiles, transposed in registers; None for others."""
    if not isinstance(root.body, Load) or len(root.axes) < 2:
        return None
    last = root.axes[-1]
    along = next((a for a in root.axes[:-1] if flat_stride(draft.program, root.body, a.name) == 1), None)
    crosses = flat_stride(draft.program, root.body, last.name) > 1
    if along is None or not crosses or min(along.extent, last.extent) < hw.lanes:
        return None
    name, size = root.name, hw.lanes
    others = [a.name for a in root.axes if a.name not in (along.name, last.name)]
    out = []
    for first, second in ((along.name, last.name), (last.name, along.name)):
        d = draft.do(Split(name, along.name, (size,)), Split(name, last.name, (size,)))
        tile = (f"{last.name}.1", f"{along.name}.1")
        d, hole = d.hole(f"{name}.{second}.block", (1, 2, 4, 8, 16, 32))
        d = d.do(Split(name, f"{second}.0", (hole,)))
        blocks = (f"{second}.0.0", f"{first}.0", f"{second}.0.1")
        d = d.do(Reorder(name, (*others, *blocks, *tile)), Unroll(name, tile[0]), Vectorize(name, tile[1]))
        if hw.threads > 1:
            outer = (*others, *blocks)
            d = d.do(Parallel(name, outer[0]))
        out.append(d.finish(name, label=f"transposed {first}"))
    return out


def _factor(draft: Draft, name: str, width: int) -> tuple[Draft, str | None]:
    """Factor the contiguous reduce axis into ``width`` partial results, fewer when it is short."""
    axis = reduces_contiguously(draft.program, draft.stage(name))
    if axis is None:
        return draft, None
    extent = next(a.extent for a in draft.stage(name).reduce_axes if a.name == axis)
    while width > extent:
        width //= 2
    if width < 2:
        return draft, None
    return draft.do(RFactor(name, axis, width)), f"{name}.rf"


def _lanes(draft: Draft, name: str, hw: Hardware) -> Draft:
    """The final reduction over partial results: whole vectors, then across lanes."""
    lane = draft.stage(name).reduce_axes[0]
    if not lane.name.startswith("lane"):
        return draft
    width = lane_choices(lane.extent, hw.lanes)[-1]
    if width >= lane.extent:
        return draft.do(Vectorize(name, lane.name))
    return draft.do(
        Split(name, lane.name, (width,)), Unroll(name, f"{lane.name}.0"), Vectorize(name, f"{lane.name}.1")
    )


def _partial(draft: Draft, name: str, root: str, loop: str, hw: Hardware) -> Draft:
    """The partial results of a row: reduce loops outside, their lanes unrolled and vectorized inside."""
    stage = draft.stage(name)
    lane = stage.axes[-1]
    if loop:
        draft = draft.do(ComputeAt(name, root, loop))
    width = lane_choices(lane.extent, hw.lanes)[-1]
    spatial = [a.name for a in stage.axes[:-1]]
    reduce = [a.name for a in stage.reduce_axes]
    steps: list[Step] = [Split(name, lane.name, (width,))]
    steps.append(Reorder(name, (*reduce, *spatial, f"{lane.name}.0", f"{lane.name}.1")))
    draft = draft.do(*steps, Unroll(name, f"{lane.name}.0"), Vectorize(name, f"{lane.name}.1"))
    return _unroll_rows(draft, name) if loop else draft


def _unroll_rows(draft: Draft, name: str) -> Draft:
    """Unroll the loops over a block's rows: spatial axes of a reduction."""
    stage = draft.stage(name)
    if stage.reducer is None:
        return draft
    plan = draft.state.plans[name]
    rows = [a.name for a in stage.axes if a.name in plan.loops]
    return draft.do(*(Unroll(name, r) for r in rows))


def _members(draft: Draft, root: Stage) -> tuple[str, ...]:
    """Producers that fit inside the root's row loop, consumers before producers."""
    program = draft.program
    if root.reducer is None:
        inner = next((a.name for a in reversed(root.axes) if a.extent > 1), "")
        rows = {root.name: frozenset(a.name for a in root.axes) - {inner}}
    else:
        rows = {root.name: frozenset(a.name for a in root.axes)}
    if not rows[root.name]:
        return ()
    for stage in reversed(program.stages):
        if stage.name in rows or stage.name in draft.done or stage.name in program.outputs:
            continue
        consumers = program.consumers(stage.name)
        if not consumers or any(c.name not in rows for c in consumers) or has_reuse(stage):
            continue
        if _is_step(stage, consumers):
            continue
        mine = _row_axes(program, stage, rows)
        size = prod(a.extent for a in stage.axes if a.name not in mine)
        if mine and size <= _ROW_ELEMENTS:
            rows[stage.name] = mine
    return tuple(n for n in rows if n != root.name)


def _is_step(stage: Stage, consumers: Sequence[Stage]) -> bool:
    """Whether an elementwise stage is one step of a single other one, where it is best written out."""
    if stage.reducer is not None or len(consumers) != 1 or consumers[0].reducer is not None:
        return False
    return sum(x.tensor == stage.name for x in loads(consumers[0].body)) == 1


def _row_axes(program: Program, stage: Stage, rows: dict[str, frozenset[str]]) -> frozenset[str]:
    """Axes of a stage that take one value inside a row: every reader indexes them by row axes alone."""
    out = set()
    for d, axis in enumerate(stage.axes):
        indices = [
            (c.name, load.index[d])
            for c in program.consumers(stage.name)
            for load in loads(c.body)
            if load.tensor == stage.name
        ]
        if all(i.names and set(i.names) <= rows[c] for c, i in indices):
            out.add(axis.name)
    return frozenset(out)
