"""Scopes: all that is known at one point of the nest while a schedule is lowered."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tunesmith.ir.affine import Affine, Range, constant
from tunesmith.ir.loopnest import LoopKind, Stmt
from tunesmith.schedule.frame import Bound, Frame
from tunesmith.schedule.proof import Knowledge
from tunesmith.schedule.steps import Pack

__all__ = ["Copy", "Leaf", "Place", "Scope", "all_static", "has_vector", "ranges_of"]

_STATIC = (LoopKind.UNROLL, LoopKind.VECTOR)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's elements are: its buffer, the global index of the buffer's first element, and the
    dimensions of the tensor in the buffer's order."""

    buffer: str
    bases: tuple[Affine, ...]
    order: tuple[int, ...]

    def index(self, at: Sequence[Affine]) -> tuple[Affine, ...]:
        """An element's index in the buffer, given its index in the tensor."""
        return tuple(at[d] - self.bases[d] for d in self.order)


@dataclass(frozen=True, slots=True)
class Copy:
    """A packed operand: ``index`` of the operand at every element of the copy, in the reader's loops."""

    pack: Pack
    extents: tuple[int, ...]
    index: tuple[Affine, ...]


@dataclass(frozen=True)
class Scope:
    """``opened``: variables that have a value here; ``fixed``: those among them whose value is static, or
    that of another loop.

    ``frames`` holds the stages whose loops are around, ``places`` every tensor that can be read or written,
    ``copies`` the packed operands by reader and tensor. ``refuted``: conditions of guards that do not all
    hold here.
    """

    known: Knowledge = field(default_factory=Knowledge)
    frames: Mapping[str, Frame] = field(default_factory=dict)
    opened: frozenset[str] = frozenset()
    fixed: Mapping[str, Affine] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    copies: Mapping[tuple[str, str], Copy] = field(default_factory=dict)
    refuted: frozenset[tuple[Affine, ...]] = frozenset()
    depth: int = 0

    def deeper(self) -> "Scope":
        """One loop or one stage farther in."""
        return replace(self, depth=self.depth + 1)

    def with_frame(self, frame: Frame) -> "Scope":
        """A stage begins: its variables get their ranges."""
        known = self.known
        for name, b in frame.bounds.items():
            known = known.with_range(name, 0, b.extent - 1)
        return replace(self, known=known, frames={**self.frames, frame.stage.name: frame})

    def put(self, frame: Frame) -> "Scope":
        """Another frame for a stage that is here already."""
        return replace(self, frames={**self.frames, frame.stage.name: frame})

    def with_copy(self, copy: Copy) -> "Scope":
        """An operand is packed from here on."""
        return replace(self, copies={**self.copies, (copy.pack.stage, copy.pack.tensor): copy})

    def fix(self, stage: str, name: str, value: Affine) -> "Scope":
        """A variable of a stage takes one value from here on, or that of another loop."""
        return replace(
            self,
            known=self.known.fix(name, value),
            frames={**self.frames, stage: self.frames[stage].fix(name, value)},
            opened=self.opened | {name},
            fixed={**self.fixed, name: value},
        )

    def shorten(self, stage: str, name: str, extent: int) -> "Scope":
        """A loop of a stage, still to be opened, has fewer iterations."""
        frame = self.frames[stage]
        bound = replace(frame.bounds[name], extent=extent)
        return self.put(replace(frame, bounds={**frame.bounds, name: bound}))

    def pin(self, values: Mapping[str, int]) -> "Scope":
        """Variables of loops that are open, of any stage, have these values here."""
        at = {n: constant(v) for n, v in values.items()}
        known, frames = self.known, dict(self.frames)
        for n, v in at.items():
            known = known.fix(n, v)
            frames = {s: f.fix(n, v) for s, f in frames.items()}
        places = {
            t: replace(p, bases=tuple(b.substitute(at) for b in p.bases)) for t, p in self.places.items()
        }
        return replace(self, known=known, frames=frames, places=places, fixed={**self.fixed, **at})

    def bounds(self) -> dict[str, Bound]:
        """Of the variables of every stage around."""
        return {n: b for f in self.frames.values() for n, b in f.bounds.items()}


Leaf: TypeAlias = Callable[[Scope], tuple[Stmt, ...]]
"""What stands inside loops that are still to be opened."""


def ranges_of(names: Sequence[str], bounds: Mapping[str, Bound]) -> dict[str, Range]:
    return {n: (0, bounds[n].extent - 1) for n in names}


def all_static(names: Sequence[str], bounds: Mapping[str, Bound]) -> bool:
    """Whether the loops of these variables disappear in the code: unrolled or vectorized."""
    return all(n in bounds and bounds[n].kind in _STATIC for n in names)


def has_vector(names: Collection[str], bounds: Mapping[str, Bound]) -> bool:
    return any(n in bounds and bounds[n].kind is LoopKind.VECTOR for n in names)
