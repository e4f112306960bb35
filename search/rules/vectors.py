"""Vectorizing along the last axis: what elementwise stages at any place share."""

from tunesmith.schedule import Hole, Split, Step, Unroll, Vectorize
from tunesmith.search.analysis import is_expensive
from tunesmith.search.draft import Draft
from tunesmith.search.rules.base import Hardware

__all__ = ["lane_choices", "vectorize_last"]

_PEEL, _OVERLAP = 0, 1


def lane_choices(extent: int, native: int) -> tuple[int, ...]:
    """Vector widths for an axis: the native one and its half, narrower ones for short axes."""
    widths = [w for w in (native // 2, native) if w >= 2]
    fitting = [w for w in widths if w <= extent]
    if fitting:
        return tuple(fitting)
    narrow = 1
    while narrow * 2 <= extent:
        narrow *= 2
    return (narrow,)


def vectorize_last(draft: Draft, stage: str, hardware: Hardware, unroll: bool = True) -> Draft:
    """Split a stage's last axis into a loop, unrolled vectors (a knob, if ``unroll``) and lanes.

    Functions may take two vectors at once: one branch then serves both.
    """
    axis = draft.stage(stage).axes[-1]
    if axis.extent == 1:
        return draft
    native = lane_choices(axis.extent, hardware.lanes)[-1]
    draft, tail = draft.hole(f"{stage}.tail", (_PEEL, _OVERLAP))
    lanes: int | Hole = native
    if is_expensive(draft.stage(stage)) and 2 * native <= axis.extent:
        draft, lanes = draft.hole(f"{stage}.lanes", (native, 2 * native))
    factors: tuple[int | Hole, ...] = (lanes,)
    vectorized = f"{axis.name}.1"
    steps: list[Step] = []
    if unroll:
        most = max(1, axis.extent // native)
        draft, hole = draft.hole(f"{stage}.unroll", tuple(u for u in (1, 2, 4, 8) if u <= most))
        factors, vectorized = (hole, lanes), f"{axis.name}.2"
        steps.append(Unroll(stage, f"{axis.name}.1"))
    draft = draft.do(Split(stage, axis.name, factors, tail))
    return draft.do(*steps, Vectorize(stage, vectorized))
