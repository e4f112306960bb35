"""What a reduction reads, and what can be done about it: packing, padding, where producers stand."""

from collections.abc import Callable
from enum import StrEnum

from tunesmith.ir.expr import Within, loads, walk
from tunesmith.ir.program import Program, Stage
from tunesmith.schedule import IllegalStep, Inline
from tunesmith.search.analysis import is_constant, is_expensive, is_guarded, reads_pointwise
from tunesmith.search.draft import Draft

__all__ = ["Place", "anchor_of", "packable", "padded", "places"]


class Place(StrEnum):
    """Where the elementwise operands of a reduction are computed; the value is a label."""

    BEFORE = ""
    SLICED = " sliced"
    ABSENT = " unpadded"  # what is zero there is left out of the sum


def anchor_of(draft: Draft, stage: str, suits: Callable[[Draft, str], object | None]) -> str | None:
    """The reduction of a group: the stage itself, or what an elementwise stage reads at its own index alone.

    ``suits`` says whether a reduction that is read so can be used.
    """
    s = draft.stage(stage)
    if s.reducer is not None:
        return stage if suits(draft, stage) else None
    for name in s.reads:
        producer = draft.program.stage_by_name.get(name)
        if producer is None or producer.reducer is None or name in draft.done:
            continue
        alone = draft.program.consumers(name) == (s,) and name not in draft.program.outputs
        if alone and reads_pointwise(s, producer) and suits(draft, name):
            return name
    return None


def padded(draft: Draft, anchor: str) -> list[str]:
    """Operands with padding whose terms the reduction can leave out."""
    out = []
    for name in draft.stage(anchor).reads:
        producer = draft.program.stage_by_name.get(name)
        if producer is None or not is_guarded(producer) or is_expensive(producer):
            continue
        try:
            inlined = draft.do(Inline(name)).stage(anchor)
        except IllegalStep:
            continue
        if not any(isinstance(e, Within) for e in walk(inlined.terms[1])):
            out.append(name)
    return out


def places(draft: Draft, anchor: str) -> tuple[Place, ...]:
    """The choices that a reduction has for its elementwise operands."""
    if not any(n in draft.program.stage_by_name for n in draft.stage(anchor).reads):
        return (Place.BEFORE,)
    absent = (Place.ABSENT,) if padded(draft, anchor) else ()
    return (*absent, Place.SLICED, Place.BEFORE)


def packable(program: Program, stage: Stage) -> frozenset[str]:
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
