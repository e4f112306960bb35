"""Slices: long reductions to few values, whose results cannot keep all threads busy.

The reduction is factored into slices, as many as there are threads or a few times as many. Their partial
results are a stage like any other, with the slices as its first axis: the rules that follow give it vector
lanes, accumulators and register tiles, and its slices to the threads. A short reduction joins them, always in
the same order. Several slices of one thread can go side by side: memory delivers several streams faster.
"""

from dataclasses import dataclass
from math import prod

from tunesmith.ir.expr import loads
from tunesmith.ir.program import Axis, Program, Stage
from tunesmith.schedule import Part, Reorder, RFactor, Split, Vectorize
from tunesmith.search.analysis import flat_stride, has_reuse, lane_axes
from tunesmith.search.draft import Draft
from tunesmith.search.rules.base import EVENLY, Hardware, balance
from tunesmith.search.rules.operands import packable
from tunesmith.search.rules.vectors import lane_choices

__all__ = ["Slices"]

_EVEN = 0.95  # of the threads' time used: as good as all of it
_WORTH = 0.6  # less than this gains nothing
_ROWS_TILE = 4  # rows that share what is loaded of a vector
_REUSE_TILES = 4  # register tiles a thread needs so that it need not read all of an operand for few of them


@dataclass(frozen=True)
class Slices:
    """``multiples``: slices for each thread; each number is a variant of its own. A reduction has at least
    ``least_points`` iterations and each slice ``least_terms`` of every result, or it stays whole."""

    name: str = "slices"
    multiples: tuple[int, ...] = (1, 4)
    least_points: int = 1 << 15
    least_terms: int = 32

    def apply(self, draft: Draft, hardware: Hardware) -> list[Draft]:
        """The draft with all reductions sliced that lack work for the threads; none if there are none."""
        out: list[Draft] = []
        for multiple in self.multiples if hardware.threads > 1 else ():
            sliced = draft
            for stage in draft.program.stages:
                step = self.step(draft.program, stage, hardware, multiple)
                if step is not None:
                    sliced = _joined(sliced.do(step), stage.name, hardware)
            if sliced is not draft and all(d.steps != sliced.steps for d in out):
                out.append(sliced.finish(label=f"slices x{multiple}"))
        return out

    def step(self, program: Program, stage: Stage, hardware: Hardware, multiple: int) -> RFactor | None:
        """The step that slices a reduction; None where its results are work enough, or it is short."""
        terms = prod(a.extent for a in stage.reduce_axes)
        points = terms * prod(a.extent for a in stage.axes)
        if stage.reducer is None or points < self.least_points or _feeds_threads(program, stage, hardware):
            return None
        slices = hardware.threads * multiple
        if terms < slices * self.least_terms:
            return None
        best: tuple[float, RFactor] | None = None
        for axis in _outermost_first(program, stage):
            lies_along = 1 in (flat_stride(program, x, axis.name) for x in loads(stage.body))
            length = _slice_length(axis.extent, slices, hardware.lanes if lies_along else 1)
            even = axis.extent / (slices * length)
            whole = length > 1 and -(-axis.extent // length) == slices
            if whole and even >= _WORTH and (best is None or min(even, _EVEN) > best[0]):
                best = min(even, _EVEN), RFactor(stage.name, axis.name, length, Part.SLICES)
        return None if best is None else best[1]


def _feeds_threads(program: Program, stage: Stage, hardware: Hardware) -> bool:
    """Whether the results are enough work for all threads: register tiles for each, evenly shared."""
    pieces, reuses = prod(a.extent for a in stage.axes), has_reuse(stage)
    names = lane_axes(program, stage, packable(program, stage))[:1]
    lane = next((a for a in stage.axes if a.name in names), None)
    lies_along = lane is not None and 1 in (flat_stride(program, x, lane.name) for x in loads(stage.body))
    if lane is not None and (lies_along or lane.extent >= hardware.lanes):
        pieces = pieces // lane.extent * -(-lane.extent // hardware.lanes)
        tile = (hardware.registers - 4) * (_REUSE_TILES if reuses else 1)
    else:
        tile = _ROWS_TILE if reuses else 1
    return pieces >= hardware.threads * tile and balance(pieces, hardware.threads) >= EVENLY


def _outermost_first(program: Program, stage: Stage) -> list[Axis]:
    """Reduce axes, those first along which operands lie far apart: slices are then large areas."""
    found = list(loads(stage.body))

    def apart(axis: Axis) -> int:
        return max((abs(flat_stride(program, x, axis.name)) for x in found), default=0)

    return sorted(stage.reduce_axes, key=apart, reverse=True)


def _slice_length(extent: int, slices: int, lanes: int) -> int:
    """As many lanes as slices of about the same length allow a multiple of; slices without a rest first."""
    least = -(-extent // slices)
    lengths = [-(-least // unit) * unit for unit in (8 * lanes, 4 * lanes, 2 * lanes, lanes, 1)]
    exact = [n for n in lengths if n * slices == extent and n % lanes == 0]
    even = [n for n in lengths if extent >= _EVEN * n * slices]
    return (exact or even or [least])[0]


def _joined(draft: Draft, stage: str, hardware: Hardware) -> Draft:
    """The short reduction over the slices: vectors of results, where there are several."""
    axes = draft.stage(stage).axes
    last = next((a for a in reversed(axes) if a.extent > 1), None)
    if last is None:
        return draft.finish(stage)
    width = lane_choices(last.extent, hardware.lanes)[-1]
    others = [a.name for a in axes if a is not last]
    slices = draft.stage(stage).reduce_axes[0].name
    order = (*others, f"{last.name}.0", slices, f"{last.name}.1")
    draft = draft.do(Split(stage, last.name, (width,)), Reorder(stage, order))
    return draft.do(Vectorize(stage, f"{last.name}.1")).finish(stage)
