"""How often the code of every stage runs: exact counts of what lowering makes of tiles and tails.

An axis is cut into tiles; a last tile that is not whole is shorter (``peel``), is moved back over its
neighbour (``overlap``) or has lanes switched off (``mask``). Tiles of different axes are independent: what a
stage does is a product over its axes, of sums over the lengths that its tiles have along an axis. Of a stage
computed inside a loop these are the lengths of the region that its readers need there.

The counts are those of the lowered nest wherever the loops of a tile are the innermost parts of their axes,
as in all that the sketch rules make. Where a sum leaves out terms of a padded operand, they hold as long as
lanes do not run along the window; ``passes`` is then an estimate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.structure import Leaf, Shaper
from tunesmith.costmodel.values import Flag, Value, ceil, floor, least, most, product, total, where
from tunesmith.ir.affine import Affine
from tunesmith.ir.expr import Load, loads
from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.program import Stage
from tunesmith.schedule import TAILS, Hole, Tail
from tunesmith.schedule.state import SplitInfo

__all__ = ["AxisWork", "Work", "Worker"]

_STATIC = (LoopKind.UNROLL, LoopKind.VECTOR)
_MOST_COUNTED = 1 << 20  # points of an index space
_MOST_STEPS = 8  # that are told apart


@dataclass(frozen=True)
class AxisWork:
    """What a stage does along one axis, all its tiles together.

    ``points``: elements computed; ``statements``: scalars or vectors; ``vectors``: native ones issued;
    ``passes``: steps of unrolled code; ``whole``: those of a whole tile.
    """

    points: Value
    statements: Value
    vectors: Value
    passes: Value
    whole: Value


@dataclass(frozen=True)
class Work(AxisWork):
    """The same over all axes, in a whole call. ``needed``: points that any schedule must compute."""

    needed: float
    axes: Mapping[str, AxisWork]


@dataclass(frozen=True)
class _Piece:
    """``times`` tiles of one ``length``. A last tile that is still to be cut (``whole`` is given) begins at
    ``start``, is ``whole`` for what is computed in it, and ends where its axis does; ``open``: where it is
    not the only one."""

    times: Value
    length: Value
    whole: Value | None = None
    start: Value = 0.0
    open: Flag = False


@dataclass(frozen=True)
class _Region:
    """Tiles of every axis of a stage, and the axes of its host that they follow. ``times``: how often it is
    all done again along axes that no tile follows."""

    pieces: Mapping[str, tuple[_Piece, ...]]
    follows: Mapping[str, frozenset[str]]
    times: Value


@dataclass
class Worker:
    """Counts for all stages of a sketch, given its shapes. ``lanes``: of a native vector."""

    shaper: Shaper
    lanes: int
    regions: dict[tuple[str, str, str], _Region] = field(default_factory=dict)
    places: dict[tuple[str, str, str], _Region] = field(default_factory=dict)

    def work(self, stage: Stage) -> Work:
        region = self._place(stage)
        axes = {a.name: self._along(stage, a.name, region.pieces[a.name]) for a in stage.all_axes}
        terms = [_terms(*group) for group in _groups(stage)]
        shares = [self._share(stage, t) for t in terms]
        lane = self._lane(stage)
        issued = [
            t.share_of_vectors(lane, self._width(stage, lane, inf)) if lane and lane in t.names else s
            for t, s in zip(terms, shares, strict=True)
        ]
        return Work(
            points=product([region.times, *shares, *(w.points for w in axes.values())]),
            statements=product([region.times, *issued, *(w.statements for w in axes.values())]),
            vectors=product([region.times, *issued, *(w.vectors for w in axes.values())]),
            passes=product([region.times, *issued, *(w.passes for w in axes.values())]),
            whole=product([region.times, *issued, *(w.whole for w in axes.values())]),
            needed=prod(a.extent for a in stage.all_axes) * prod(t.share for t in terms),
            axes=axes,
        )

    # -- regions ------------------------------------------------------------------------------------------

    def _place(self, stage: Stage) -> _Region:
        """The tiles of a stage where it stands."""
        at = self.shaper.state.plans[stage.name].at
        if at is None:
            whole = {a.name: (_Piece(1.0, float(a.extent)),) for a in stage.all_axes}
            return _Region(whole, {a: frozenset() for a in whole}, 1.0)
        key = (stage.name, *at)
        if key not in self.places:
            region = self._at(stage, *at)
            ends = {a.name: tuple(_ended(p, a.extent) for p in region.pieces[a.name]) for a in stage.all_axes}
            self.places[key] = replace(region, pieces=ends)
        return self.places[key]

    def _at(self, stage: Stage, host: str, loop: str) -> _Region:
        """The tiles of a stage that is computed inside a loop of another one."""
        key = (stage.name, host, loop)
        if key not in self.regions:
            self.regions[key] = self._needed(stage, self.shaper.program.stage(host), loop)
        return self.regions[key]

    def _needed(self, stage: Stage, host: Stage, loop: str) -> _Region:
        inner = {a.name: self._inside(host, a.name, loop) for a in host.all_axes}
        pieces: dict[str, tuple[_Piece, ...]] = {}
        follows: dict[str, frozenset[str]] = {}
        reader = self.shaper.program.consumers(stage.name)[0]
        if reader is host:
            source: Mapping[str, tuple[_Piece, ...]] = inner
            sources: Mapping[str, frozenset[str]] = {a: frozenset({a}) for a in inner}
        else:
            region = self._at(reader, host.name, loop)
            source, sources = region.pieces, region.follows
        mine = [x for x in loads(reader.body) if x.tensor == stage.name]
        for d, axis in enumerate(stage.axes):
            pieces[axis.name] = _mapped(mine, d, source, float(axis.extent))
            follows[axis.name] = frozenset(h for a in mine[0].index[d].names for h in sources[a])
        for axis in stage.reduce_axes:
            pieces[axis.name], follows[axis.name] = (_Piece(1.0, float(axis.extent)),), frozenset()
        followed = frozenset(h for f in follows.values() for h in f)
        again = [total(p.times for p in x) for a, x in inner.items() if a not in followed]
        return _Region(pieces, follows, product([self._place(host).times, *again]))

    def _inside(self, host: Stage, axis: str, loop: str) -> tuple[_Piece, ...]:
        """What is left of an axis inside one of the stage's loops."""
        plan = self.shaper.state.plans[host.name]
        opened = {leaf for x in plan.loops[: plan.loops.index(loop) + 1] for leaf in plan.leaves(x)}
        leaves = self.shaper.frame(host.name).leaves[axis]
        own = [x for x in leaves if x.loop in opened]
        before = self._place(host).pieces[axis]
        if not own:
            return before
        settled = all(plan.kind(x.loop) in _STATIC for x in leaves if x.loop not in opened)
        cut = [x for p in before for x in self._cut(host, axis, p, own[-1].stride, settled)]
        return tuple(x for x in cut if not isinstance(x.times, float) or x.times)

    def _cut(self, stage: Stage, axis: str, piece: _Piece, tile: Value, settled: bool) -> list[_Piece]:
        length = piece.length
        whole = floor(length / tile)
        left = length - whole * tile
        more = where(left > 0, piece.times, 0.0)
        left = most(left, 1.0)
        if not settled:
            start = piece.start + whole * tile
            last = _Piece(more, left, least(tile, length), start, piece.open | (whole > 0))
            return [_Piece(piece.times * whole, tile), last]
        even = self._is_even(stage, axis, piece)
        if isinstance(even, bool) and not even:
            return [_Piece(piece.times * whole, tile), _Piece(more, left)]
        length = length if piece.whole is None else piece.whole
        times = piece.times * whole + where(even, more, 0.0)
        return [_Piece(times, least(tile, length)), _Piece(where(even, 0.0, more), left)]

    # -- tails --------------------------------------------------------------------------------------------

    def _tail_is(self, stage: Stage, axis: str, tail: Tail) -> Flag:
        for d in self.shaper.state.plans[stage.name].derivations:
            if isinstance(d, SplitInfo) and d.parent == axis:
                if isinstance(d.tail, Hole):
                    return self.shaper.values[d.tail.knob] == TAILS.index(tail)
                return Tail(d.tail) is tail
        return False

    def _is_even(self, stage: Stage, axis: str, piece: _Piece) -> Flag:
        """Where all tiles are alike, the last one included."""
        return self._overlaps(stage, axis, piece.length) | self._masks(stage, axis, piece)

    def _masks(self, stage: Stage, axis: str, piece: _Piece) -> Flag:
        """Where lanes beyond the end are switched off; those of open tiles always are."""
        plan = self.shaper.state.plans[stage.name]
        leaves = self.shaper.frame(stage.name).leaves[axis]
        if not any(plan.kind(x.loop) is LoopKind.VECTOR for x in leaves):
            return False
        return piece.open | self._tail_is(stage, axis, Tail.MASK)

    def _overlaps(self, stage: Stage, axis: str, length: Value) -> Flag:
        """Where the last tile moves back; the conditions are those of ``schedule.tails``."""
        plan = self.shaper.state.plans[stage.name]
        flag = self._tail_is(stage, axis, Tail.OVERLAP)
        serial = self._serial(stage, axis)
        if flag is False or not serial or not self._may_move(stage, axis):
            return False
        tile = serial[-1].stride
        inside = self._stays_inside(stage, axis, length, tile)
        width = self._width(stage, axis, length)
        alone: Flag = width is not None and width == self._width(stage, axis, inf)
        for x in serial:
            if x.loop not in plan.loops:  # fused: its variable is known where it has one trip
                alone = alone & (self.shaper.frame(stage.name).extents[x.loop] <= 1)
        return flag & ((length >= tile) | alone) & inside

    def _done(self, stage: Stage, axis: str) -> tuple[str, ...]:
        """A stage's loops up to the innermost one that steps along the axis."""
        plan = self.shaper.state.plans[stage.name]
        last = self._serial(stage, axis)[-1].loop
        n = next(n for n, x in enumerate(plan.loops) if last in plan.leaves(x))
        return plan.loops[: n + 1]

    def _may_move(self, stage: Stage, axis: str) -> bool:
        state, done = self.shaper.state, self._done(stage, axis)
        plan = state.plans[stage.name]
        if plan.leader is not None or any(state.is_reduce_loop(stage, x) for x in done):
            return False
        if stage.reducer is not None and any(plan.kind(x) is LoopKind.PARALLEL for x in done):
            return False
        outer = {f"{stage.name}.{x.loop}" for x in self._serial(stage, axis)}
        packed = any(outer & set(p.loops) for p in state.packs)
        return not packed and not any(state.packs_at(stage.name, x) for x in done[:-1])

    def _stays_inside(self, stage: Stage, axis: str, length: Value, tile: Value) -> Flag:
        """Whether a last tile needs no more than what is computed in the loops opened before."""
        state, frame = self.shaper.state, self.shaper.frame(stage.name)
        plan, done = state.plans[stage.name], self._done(stage, axis)
        inside: Flag = True
        for n, loop in enumerate(done[:-1]):
            if (stage.name, loop) not in state.attached:
                continue
            opened = {leaf for x in done[: n + 1] for leaf in plan.leaves(x)}
            mine: Flag = True
            for leaf in (x for x in frame.leaves[axis] if x.loop in opened):
                left = length - floor(length / leaf.stride) * leaf.stride
                fits = where(left > 0, left, leaf.stride) >= tile
                mine = _either(frame.extents[leaf.loop] > 1, fits, mine)
            inside = inside & mine
        return inside

    # -- along an axis ------------------------------------------------------------------------------------

    def _serial(self, stage: Stage, axis: str) -> list[Leaf]:
        """The loops that step along an axis, its unrolled and vectorized parts left out."""
        plan = self.shaper.state.plans[stage.name]
        leaves = self.shaper.frame(stage.name).leaves[axis]
        return [x for x in leaves if plan.kind(x.loop) not in _STATIC]

    def _lane(self, stage: Stage) -> str | None:
        plan = self.shaper.state.plans[stage.name]
        return next((plan.axis_of(x) for x in plan.loops if plan.kind(x) is LoopKind.VECTOR), None)

    def _along(self, stage: Stage, axis: str, pieces: tuple[_Piece, ...]) -> AxisWork:
        work = [self._of(stage, axis, p) for p in pieces]
        return AxisWork(
            total(w.points for w in work),
            total(w.statements for w in work),
            total(w.vectors for w in work),
            total(w.passes for w in work),
            total(w.whole for w in work),
        )

    def _of(self, stage: Stage, axis: str, piece: _Piece) -> AxisWork:
        """What is done along one axis in all tiles of one length."""
        times, length = piece.times, piece.length
        serial = self._serial(stage, axis)
        end = length if piece.whole is None else piece.whole
        tile = least(serial[-1].stride, end) if serial else end
        passes = ceil(length / tile) if serial else 1.0
        full = least(tile if serial else inf, self.shaper.frame(stage.name).extents[axis])
        even = self._is_even(stage, axis, piece)
        whole = where(even, passes, floor(length / full))
        width = self._width(stage, axis, end)
        if width is None:
            points = where(even, passes * tile, length)
            return AxisWork(times * points, times * points, times * points, times * passes, times * whole)
        native = ceil(width / self.lanes)
        count = floor(length / width)
        left = length - count * width
        statements = count + where(left > 0, 1.0, 0.0)
        vectors = count * native + ceil(left / self.lanes)
        points = length
        if not isinstance(even, bool) or even:
            statements = where(even, passes * ceil(tile / width), statements)
            vectors = where(even, statements * native, vectors)
            points = where(even, statements * width, points)
        return AxisWork(times * points, times * statements, times * vectors, times * passes, times * whole)

    def _width(self, stage: Stage, axis: str, length: Value) -> Value | None:
        """Elements of a vector along an axis; None where they are computed one by one."""
        plan = self.shaper.state.plans[stage.name]
        leaves = self.shaper.frame(stage.name).leaves[axis]
        for n, leaf in enumerate(leaves):
            if plan.kind(leaf.loop) is LoopKind.VECTOR:
                return least(leaves[n - 1].stride, length) if n else length
        return None

    # -- absent terms -------------------------------------------------------------------------------------

    def _share(self, stage: Stage, terms: "_Terms") -> Value:
        """The share of points that have a term, those that are computed twice included."""
        for axis in terms.names:
            twice = self._twice(stage, axis)
            if twice is not None:
                return terms.share_with(axis, *twice)
        return terms.share

    def _twice(self, stage: Stage, axis: str) -> tuple[Value, Value] | None:
        """The indices of an axis that overlapping tiles compute twice, where there may be some."""
        at = self.shaper.state.plans[stage.name].at
        if at is not None:
            reader = self.shaper.program.consumers(stage.name)[0]
            d = next((d for d, a in enumerate(stage.axes) if a.name == axis), None)
            load = next(x for x in loads(reader.body) if x.tensor == stage.name)
            if d is None or len(load.index[d].terms) != 1:
                return None
            return self._twice(reader, load.index[d].names[0])
        extent = float(next(a.extent for a in stage.all_axes if a.name == axis))
        moved = self._overlaps(stage, axis, extent)
        if isinstance(moved, bool) and not moved:
            return None
        tile = self._serial(stage, axis)[-1].stride
        start = extent - least(tile, extent)
        stop = (ceil(extent / tile) - 1) * tile
        return where(moved, start, 0.0), where(moved, stop, 0.0)


def _either(condition: Flag, a: Flag, b: Flag) -> Flag:
    if isinstance(condition, np.ndarray):
        out: NDArray[np.bool_] = np.where(condition, a, b)
        return out
    return a if condition else b


def _mapped(
    mine: list[Load], d: int, source: Mapping[str, tuple[_Piece, ...]], extent: float
) -> tuple[_Piece, ...]:
    """Tiles of one dimension of a producer, given those of its reader's axes and the loads of it."""
    offsets = [x.index[d].const for x in mine]
    out = [_Piece(1.0, 1.0 + max(offsets) - min(offsets))]
    terms = mine[0].index[d].terms
    for axis, c in terms:
        pieces = source[axis] if len(terms) == 1 else _one_by_one(source[axis])
        out = [_joined(a, b, abs(c)) for a in out for b in pieces]
    return tuple(_clipped(p, extent) for p in out)


def _one_by_one(pieces: tuple[_Piece, ...]) -> tuple[_Piece, ...]:
    """The few steps of an axis that is stepped along, each where it is."""
    first = pieces[0]
    if len(pieces) > 1 or not isinstance(first.times, float) or not 1 < first.times <= _MOST_STEPS:
        return pieces
    steps = range(int(first.times))
    return tuple(_Piece(1.0, first.length, first.length, n * first.length) for n in steps)


def _joined(a: _Piece, b: _Piece, c: int) -> _Piece:
    """The tile that two axes span, one of them ``c`` times as far."""
    length = a.length + c * (b.length - 1)
    times = a.times * b.times
    if a.whole is None and b.whole is None:
        return _Piece(times, length)
    whole_a = a.length if a.whole is None else a.whole
    whole_b = b.length if b.whole is None else b.whole
    return _Piece(times, length, whole_a + c * (whole_b - 1), a.start + c * b.start, a.open | b.open)


def _clipped(p: _Piece, extent: float) -> _Piece:
    """A tile that is no longer than its axis."""
    if p.whole is None:
        return _Piece(p.times, least(p.length, extent))
    is_open = p.open & (p.whole < extent)
    return _Piece(p.times, least(p.length, extent), least(p.whole, extent), p.start, is_open)


def _ended(p: _Piece, extent: int) -> _Piece:
    """A tile where it is computed: an open one is as long as there is something to compute."""
    return p if p.whole is None else replace(p, length=most(least(p.whole, extent - p.start), 1.0), start=0.0)


@dataclass(frozen=True)
class _Terms:
    """Where conditions on the same axes hold: an array with one dimension an axis."""

    names: tuple[str, ...]
    holds: NDArray[np.bool_]

    @cached_property
    def share(self) -> float:
        return float(np.mean(self.holds))

    def share_of_vectors(self, axis: str, width: Value | None) -> Value:
        """The share of vectors along an axis in which they hold for some lane."""
        if isinstance(width, np.ndarray):
            widths, inverse = np.unique(width, return_inverse=True)
            return np.array([self._share_of_vectors(axis, int(w)) for w in widths])[inverse]
        return self._share_of_vectors(axis, int(least(width or 1.0, float(self.holds.size))))

    def _share_of_vectors(self, axis: str, width: int) -> float:
        along = np.moveaxis(self.holds, self.names.index(axis), 0)
        starts = range(0, len(along), width)
        return float(np.mean([along[n : n + width].any(axis=0) for n in starts]))

    def share_with(self, axis: str, start: Value, stop: Value) -> Value:
        """The share where indices from start to stop of an axis are counted twice."""
        n = self.names.index(axis)
        along = np.moveaxis(self.holds, n, 0).reshape(self.holds.shape[n], -1)
        sums = np.concatenate([[0.0], np.cumsum(along.mean(axis=1))])
        more = sums[np.asarray(stop, dtype=np.int64)] - sums[np.asarray(start, dtype=np.int64)]
        share: Value = (sums[-1] + more) / (len(along) + (stop - start))
        return share


def _groups(stage: Stage) -> list[tuple[tuple[Affine, ...], tuple[int, ...]]]:
    """Conditions on terms, those on the same axes together, with the extents of these axes."""
    extents = {a.name: a.extent for a in stage.all_axes}
    groups: dict[tuple[str, ...], list[Affine]] = {}
    for form in stage.terms[0]:
        groups.setdefault(form.names, []).append(form)
    sizes = {names: tuple(extents[n] for n in names) for names in groups}
    return [(tuple(f), sizes[n]) for n, f in groups.items() if prod(sizes[n]) <= _MOST_COUNTED]


@lru_cache(maxsize=256)
def _terms(forms: tuple[Affine, ...], extents: tuple[int, ...]) -> _Terms:
    names = forms[0].names
    grids = dict(zip(names, np.ix_(*(np.arange(n) for n in extents)), strict=True))
    holds = [sum((grids[n] * c for n, c in f.terms), np.asarray(f.const)) >= 0 for f in forms]
    return _Terms(names, np.logical_and.reduce(np.broadcast_arrays(*holds)))
