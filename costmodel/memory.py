"""What the loops of a stage reach in memory, and what each cache must deliver.

Exact for whole tiles: extents reached along each dimension of a buffer by the loops inside a depth, and how
often the loops outside go over them. Models on top of these: lines rather than elements, sets that lines
compete for, the depth whose footprint stays in a cache, bytes that come through a level, pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tunesmith.costmodel.body import in_memory
from tunesmith.costmodel.machine import Level, Machine
from tunesmith.costmodel.structure import Access, LoopShape, StageShape
from tunesmith.costmodel.values import Value, least, most, product, size, total, where

__all__ = ["Memory", "Reach", "Traffic", "reach_of"]

_LINE = 64
_PAGE = 4096
_CACHE_USE = 0.8  # of a cache's capacity, before conflicts and other data spoil it


@dataclass(frozen=True)
class Reach:
    """Places along each dimension of a buffer that the loops inside a depth reach, and what they come to.

    ``lines``: cache lines, none of a buffer that is registers.
    """

    places: tuple[Value, ...]
    lines: Value


def reach_of(access: Access, serial: Sequence[LoopShape], static: Sequence[LoopShape]) -> list[Reach]:
    """By depth: entry d for the loops inside the d outermost of ``serial``, the last for unrolled code."""
    inner: list[Value] = [
        1.0 + total(size(steps[x.name]) * (x.extent - 1) for x in static if x.name in steps)
        for steps in access.steps
    ]
    places = [least(n, extent) for n, extent in zip(inner, access.extents, strict=True)]
    resident = in_memory(access)
    found = [_reach(access, places, resident)]
    for loop in reversed(serial):
        if not access.moves(loop):
            found.append(found[-1])
            continue
        for d, steps in enumerate(access.steps):
            if loop.name in steps:
                inner[d] = inner[d] + size(steps[loop.name]) * (loop.extent - 1)
                places[d] = least(inner[d], access.extents[d])
        found.append(_reach(access, places, resident))
    return found[::-1]


def _reach(access: Access, places: Sequence[Value], resident: Value) -> Reach:
    if not places:
        return Reach((), resident)
    *outer, last = places
    lines = most(last * (access.element_bytes / _LINE), 1.0)
    return Reach(tuple(places), product([resident, lines, *outer]))


class Memory:
    """The memory side of one stage, for every candidate of a population."""

    def __init__(self, shape: StageShape, machine: Machine) -> None:
        self.shape = shape
        self.machine = machine
        self.accesses = (*shape.reads, shape.write)
        self.reaches = [reach_of(a, shape.serial, shape.static) for a in self.accesses]

    @property
    def depth(self) -> int:
        return len(self.shape.serial)

    @cached_property
    def footprints(self) -> list[Value]:
        """Bytes of cache lines touched inside each depth."""
        return [total(r[d].lines for r in self.reaches) * _LINE for d in range(self.depth + 1)]

    @cached_property
    def flows(self) -> list[Value]:
        """Bytes fetched when what is inside a depth stays in a cache, and nothing more does."""
        trips: list[list[Value]] = []
        for access in self.accesses:
            mine: list[Value] = [1.0]
            so_far: Value = 1.0
            for loop in self.shape.serial:
                so_far = so_far * loop.extent
                # Loops just outside that do not move in a buffer leave it where it is.
                mine.append(so_far if access.moves(loop) else mine[-1])
            trips.append(mine)
        return [
            total(r[d].lines * t[d] for r, t in zip(self.reaches, trips, strict=True)) * _LINE
            for d in range(self.depth + 1)
        ]

    @cached_property
    def levels(self) -> tuple["Traffic", ...]:
        return tuple(self._through(x) for x in self.machine.levels)

    def _through(self, level: Level) -> "Traffic":
        """What comes through one level: the outermost depth whose insides fit decides."""
        capacity = level.size_bytes * _CACHE_USE
        taken = self._occupied(level.way_bytes)
        # Even where nothing fits, the innermost loop uses each line up before it goes on to the next.
        inner = max(self.depth - 1, 0)
        moved = self.flows[inner]
        fits = (taken[-1] <= capacity) & (taken[inner] <= capacity)
        for d in range(inner - 1, -1, -1):
            fits = fits & (taken[d] <= capacity)
            moved = where(fits, self.flows[d], moved)
        crowding = taken[inner] / most(self.footprints[inner], 1.0)
        return Traffic(moved, moved / (level.beyond_gbs * 1e9), taken[inner] / level.size_bytes, crowding)

    def _occupied(self, way_bytes: int) -> list[Value]:
        """By depth: bytes of a cache that what is inside takes up."""
        taken = self.footprints
        for access, reaches in zip(self.accesses, self.reaches, strict=True):
            apart = _rows_apart(access, way_bytes)
            if apart is None:
                continue
            more: dict[int, Value] = {}
            for reach in reaches:
                if id(reach) not in more:
                    more[id(reach)] = _crowded(reach, apart, way_bytes / _LINE)
            taken = [n + more[id(reach)] for n, reach in zip(taken, reaches, strict=True)]
        return taken

    def pages(self, access: Access, reach: Reach) -> Value:
        """Pages of memory that the loops inside a depth touch in a buffer."""
        if not reach.places or access.local:
            return 0.0
        stride: Value = float(access.element_bytes)
        pages: Value = most(reach.places[-1] * (stride / _PAGE), 1.0)
        for extent, places in zip(reversed(access.extents[1:]), reversed(reach.places[:-1]), strict=True):
            stride = stride * extent
            pages = pages * most(places * least(stride / _PAGE, 1.0), 1.0)
        return pages

    @property
    def inner_pages(self) -> Value:
        """Pages that one trip of the loop around the innermost one touches."""
        d = max(self.depth - 1, 0)
        return total(self.pages(a, r[d]) for a, r in zip(self.accesses, self.reaches, strict=True))

    def reuse(self, access: Access) -> tuple[Value, Value]:
        """Trips of the innermost loop that finds an operand where it was, and bytes touched between two of
        them; 1 and everything where there is no such loop."""
        count: Value = 1.0
        distance = self.footprints[0]
        for d, loop in enumerate(self.shape.serial):
            if not access.moves(loop):
                again = loop.extent > 1
                count = where(again, loop.extent, count)
                distance = where(again, self.footprints[d + 1], distance)
        return count, distance


@dataclass(frozen=True)
class Traffic:
    """Through one level: bytes, seconds; the part of its capacity that the innermost loop takes up, and how
    many times more that is for lines that share sets."""

    moved: Value
    seconds: Value
    filled: Value
    crowding: Value


def _rows_apart(access: Access, way_bytes: int) -> list[float] | None:
    """Along each dimension but the last of a whole tensor, places whose lines map to different sets.

    None where these are as many as there are places. Copies and local buffers lie in the order in which they
    are read, which leaves no gaps.
    """
    if access.local or not all(isinstance(n, float) for n in access.extents):
        return None
    stride = access.element_bytes
    found: list[float] = []
    for extent in reversed(access.extents[1:]):
        stride *= int(extent)
        found.append(way_bytes / min(stride & -stride, way_bytes))
    crowds = any(n < extent for n, extent in zip(reversed(found), access.extents[:-1], strict=True))
    return found[::-1] if crowds else None


def _crowded(reach: Reach, apart: Sequence[float], all_sets: float) -> Value:
    """Bytes of a cache that lines take up beside their own: sets that no line maps to count as taken.

    Rows that lie a multiple of a large power of two apart share few sets.
    """
    rows = product(reach.places[:-1])
    if isinstance(rows, float) and rows == 1.0:
        return 0.0
    sets = product(least(n, m) for n, m in zip(reach.places[:-1], apart, strict=True))
    lines = reach.lines
    taken = least(lines / rows * sets, all_sets)
    return most(least(lines, all_sets) / taken - 1.0, 0.0) * lines * _LINE
