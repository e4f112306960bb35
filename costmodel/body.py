"""One pass of a stage's unrolled code: instructions, registers, and the chain that its results wait for.

All of a whole tile. Exact: ``width``, ``statements``, ``vectors``, ``accumulators``, ``chain``, and the
addresses in ``loads`` (each once, as common subexpressions are). Models of what a compiler does:
``resident``, ``held``, ``windows``, and the number of instructions that load and store.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunesmith.costmodel.structure import Access, LoopShape, StageShape
from tunesmith.costmodel.values import Flag, Value, ceil, floor, most, product, size, total, where
from tunesmith.ir.loopnest import LoopKind

__all__ = ["Body", "Loads", "body_of", "in_memory"]

_REGISTER_ELEMENTS = 512  # of a local buffer that becomes registers


@dataclass(frozen=True)
class Loads:
    """Addresses read in one pass, by kind: whole vectors, one value for all lanes, lanes far apart."""

    vector: Value
    scalar: Value
    strided: Value


@dataclass(frozen=True)
class Body:
    """``width``: elements of a vector in the code, ``native`` vectors each; ``statements``: vectors or
    scalars computed; ``vectors``: the same in native ones.

    ``accumulators``: native vectors of running results; ``resident``: 1 where they stay in registers;
    ``held``: registers for operands beside them; ``windows``: those for operands that are used again some
    steps on. ``chain``: accumulations that wait for one another.
    """

    width: Value
    native: Value
    statements: Value
    vectors: Value
    loads: Loads
    load_instructions: Value
    store_instructions: Value
    accumulators: Value
    resident: Value
    held: Value
    windows: Value
    chain: Value


def body_of(shape: StageShape, lanes: int) -> Body:
    """The unrolled code of a stage; ``lanes`` of a native vector."""
    width = 1.0 if shape.vector is None else shape.vector.extent
    native = ceil(width / lanes)
    statements = product(x.extent for x in shape.static if x is not shape.vector)
    spatial = [x for x in shape.static if shape.write.moves(x)]
    accumulators = product(native if x is shape.vector else x.extent for x in spatial)
    reads = [_Read(a, shape, width, native) for a in shape.reads]
    return Body(
        width=width,
        native=native,
        statements=statements,
        vectors=statements * native,
        loads=Loads(*(total(r.addresses(kind) for r in reads) for kind in ("vector", "scalar", "strided"))),
        load_instructions=total(r.instructions for r in reads),
        store_instructions=_Read(shape.write, shape, width, native).instructions,
        accumulators=accumulators,
        resident=_resident(shape),
        held=_held(shape, accumulators, native),
        windows=_windows(shape, accumulators, native),
        chain=product(x.extent for x in shape.static if not shape.write.moves(x)),
    )


def in_memory(access: Access) -> Value:
    """0 where the buffer is local and small enough to be registers, 1 elsewhere."""
    return where(access.size <= _REGISTER_ELEMENTS, 0.0, 1.0) if access.local else 1.0


class _Read:
    """One operand in one pass."""

    def __init__(self, access: Access, shape: StageShape, width: Value, native: Value) -> None:
        self.is_vector = shape.vector is not None and access.moves(shape.vector)
        stride = access.strides[shape.vector.name] if shape.vector and self.is_vector else 0.0
        self.contiguous: Flag = stride == 1.0
        loops = [x for x in shape.static if access.moves(x) and x is not shape.vector]
        self.places = _places(access, loops)
        # Overlapping windows of single values are loaded again: the registers they would stay in are taken.
        loaded = self.places if self.is_vector else product(x.extent for x in loops)
        lane = where(self.contiguous, native, 2 * width) if self.is_vector else 1.0
        self.instructions = product([in_memory(access), loaded, lane])

    def addresses(self, kind: str) -> Value:
        if not self.is_vector:
            return self.places if kind == "scalar" else 0.0
        if kind == "scalar":
            return 0.0
        return where(self.contiguous, *((self.places, 0.0) if kind == "vector" else (0.0, self.places)))


def _places(access: Access, loops: Sequence[LoopShape]) -> Value:
    """Different addresses that the loops reach; those of one stride, or of a multiple, overlap."""
    found: list[tuple[Value, Value]] = []  # strides, and how many places there are that far apart
    for loop in loops:
        stride, extent = size(access.strides[loop.name]), loop.extent
        for n, (first, number) in enumerate(found):
            wider, inside = _overlap(first, number, stride, extent), _overlap(stride, extent, first, number)
            if wider is not None or inside is not None:
                both = number * extent
                both = both if wider is None else where(wider[0], wider[1], both)
                both = both if inside is None else where(inside[0], inside[1], both)
                found[n] = (first if inside is None else where(inside[0], stride, first), both)
                break
        else:
            found.append((stride, extent))
    return product(number for _, number in found)


def _overlap(first: Value, number: Value, stride: Value, extent: Value) -> tuple[Flag, Value] | None:
    """Where steps of one stride fall among those of another: how many places they make; None: nowhere."""
    apart = stride / most(first, 1.0)
    falls = (apart >= 1) & (apart == floor(apart)) & (apart < number)
    if not np.any(falls):
        return None
    return falls, number + apart * (extent - 1)


def _resident(shape: StageShape) -> Value:
    """1 where running results can stay in registers, 0 where they are in memory."""
    resident: Value = float(shape.attached)
    for loop in shape.serial:
        if loop.own and shape.write.moves(loop):
            resident = where(loop.extent == 1, resident, 0.0)
    return resident


def _held(shape: StageShape, accumulators: Value, native: Value) -> Value:
    """Registers for operands while the tile is updated: all vectors of one, and one for the others.

    A tile that does not leave this many free runs at about half speed: the scheduler moves loads up and
    spills accumulators to make room. What one accumulator alone uses comes from memory when it is needed.
    """
    held: Value = 1.0
    for access in shape.reads:
        if shape.vector is not None and access.moves(shape.vector):
            mine = _per_tile(shape, access, native)
            held = held + where(mine < accumulators, mine, 0.0)
    return held


def _per_tile(shape: StageShape, access: Access, native: Value) -> Value:
    """Vectors of an operand that one step of the tile uses."""
    loops = [x for x in shape.static if access.moves(x) and shape.write.moves(x)]
    return product(native if x is shape.vector else x.extent for x in loops)


def _windows(shape: StageShape, accumulators: Value, native: Value) -> Value:
    """Registers for operands that other accumulators use again a few steps on, when windows are unrolled."""
    more: Value = 0.0
    for access in shape.reads:
        sliding = _sliding(shape, access)
        if isinstance(sliding, float) and not sliding:
            continue
        if shape.vector is not None and access.moves(shape.vector) and shape.write.moves(shape.vector):
            from_memory = _per_tile(shape, access, native) >= accumulators
            sliding = where(from_memory, 0.0, sliding)
        more = more + sliding
    return more


def _sliding(shape: StageShape, access: Access) -> Value:
    more: Value = 0.0
    moved = [x for x in shape.static if access.moves(x)]
    places = [x for x in moved if shape.write.moves(x) and x.kind is LoopKind.UNROLL]
    for step in (x for x in moved if not shape.write.moves(x)):
        for place in places:
            apart = access.strides[step.name] / most(access.strides[place.name], 1.0)
            again = (step.extent > 1) & (apart == floor(apart)) & (apart < place.extent)
            if np.any(again):
                more = most(more, where(again, place.extent - 1, 0.0))
    return more
