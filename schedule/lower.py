"""Lowering: a scheduled program to an explicit loop nest.

Walks the stages at the root in order; opening a loop clamps it to what its conditions leave, splits off
remainders that need their own code, emits the stages computed there over the region their readers need, and
goes on inside. Everything that varies from place to place travels in an immutable Scope.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tunesmith.ir.affine import Affine, constant, var
from tunesmith.ir.expr import Const, Expr
from tunesmith.ir.loopnest import (
    Alloc,
    Buffer,
    For,
    If,
    Let,
    LetOp,
    LoopKind,
    LoopNest,
    Role,
    Stmt,
    Store,
    Update,
)
from tunesmith.ir.program import Program, Stage
from tunesmith.schedule.bodies import body_at, settled_guard, without_needless_guards
from tunesmith.schedule.frame import Bound, Condition, Frame, Span, make_frame
from tunesmith.schedule.joins import check_iterations, check_order
from tunesmith.schedule.limits import Budget, Limits
from tunesmith.schedule.packing import pack_operand
from tunesmith.schedule.regions import region_of, whole_spans
from tunesmith.schedule.scope import Leaf, Place, Scope
from tunesmith.schedule.state import FuseInfo, State, replay
from tunesmith.schedule.steps import PREPARE, ROOT, Schedule, Tail
from tunesmith.schedule.tails import clamp, full_trips, settle, starts

__all__ = ["lower", "lower_state"]

_MOST_VERSIONS = 16  # of a loop's body, for the guards in it


def lower(program: Program, schedule: Schedule, limits: Limits | None = None) -> LoopNest:
    """The loop nest of a scheduled program. Raises IllegalStep."""
    return lower_state(replay(program, schedule), limits or Limits())


def lower_state(state: State, limits: Limits) -> LoopNest:
    """The loop nest of a replayed schedule. Raises IllegalStep; more than the limits allow is illegal too."""
    return _Lowering(state, Budget(limits, state.program)).nest()


@dataclass(frozen=True)
class _Lowering:
    state: State
    budget: Budget

    # -- the whole nest ---------------------------------------------------------------------------------

    def nest(self) -> LoopNest:
        program = self.state.program
        places = {
            t.name: Place(t.name, (Affine(),) * len(t.shape), tuple(range(len(t.shape))))
            for t in program.tensors.values()
        }
        scope = Scope(places=places)
        scope, prepare, packed = self._packs(scope, PREPARE)
        scope, copies, temps = self._packs(scope, ROOT)
        body = list(copies)
        for stage in program.stages:
            plan = self.state.plans[stage.name]
            if plan.at is None:
                if plan.leader is None:
                    body.extend(self._stages(scope, {s: whole_spans(s) for s in self._group(stage.name)}))
                if stage.name not in program.outputs:
                    temps.append(Buffer(stage.name, stage.shape, stage.dtype, Role.TEMP))
        inputs = [Buffer(t.name, t.shape, t.dtype, Role.INPUT, t.const) for t in program.inputs]
        results = [program.stage(name) for name in program.outputs]
        outputs = [Buffer(s.name, s.shape, s.dtype, Role.OUTPUT) for s in results]
        return LoopNest(program.name, (*inputs, *packed, *outputs, *temps), tuple(prepare), tuple(body))

    def _packs(self, scope: Scope, at: str) -> tuple[Scope, tuple[Stmt, ...], list[Buffer]]:
        """Operands packed at a place: the scope from there on, the copying, and the buffers copied to."""
        stmts: tuple[Stmt, ...] = ()
        buffers = []
        for pack in self.state.packs:
            if pack.at == at:
                copy, buffer, loops = pack_operand(self.state, scope, pack, self.budget.limits.lanes)
                self.budget.check_copy(buffer, self.state.program.tensors[pack.tensor].size_bytes)
                scope = scope.with_copy(copy)
                stmts += loops
                buffers.append(buffer)
        return scope, stmts, buffers

    # -- one stage --------------------------------------------------------------------------------------

    def _group(self, leader: str) -> tuple[Stage, ...]:
        """A stage and those that run along with it."""
        return tuple(self.state.program.stage(n) for n in (leader, *self.state.followers.get(leader, ())))

    def _stages(self, scope: Scope, group: Mapping[Stage, Mapping[str, Span]]) -> tuple[Stmt, ...]:
        """A leader and its followers over the regions that are needed of them."""
        for stage, spans in group.items():
            frame = make_frame(stage, self.state.plans[stage.name], spans, scope.known)
            scope = scope.with_frame(frame)
            scope = scope.put(without_needless_guards(self.state, scope, frame))
        check_order(scope, tuple(group))
        return self._entered(scope, tuple(group))

    def _entered(self, scope: Scope, group: tuple[Stage, ...]) -> tuple[Stmt, ...]:
        """Stages after what the loops around them decide about their tails. What reduces in its outermost
        loop is set to the identity before it."""
        for stage in group:
            loops = scope.frames[stage.name].plan.loops
            settled = settle(self.state, scope, stage.name, loops, lambda sc: self._entered(sc, group))
            if settled is not None:
                return settled
        out: tuple[Stmt, ...] = ()
        for stage in group:
            if stage.reducer is not None and self._spatial_loops(stage) == 0:
                out += self._identity(scope, stage)
                scope = _where_terms_are(scope, stage)
        return out + self._together(scope, group)

    def _together(self, scope: Scope, group: tuple[Stage, ...]) -> tuple[Stmt, ...]:
        for stage in group:
            loops = scope.frames[stage.name].plan.loops
            settled = settle(self.state, scope, stage.name, loops, lambda sc: self._together(sc, group))
            if settled is not None:
                return settled
        return self._open(scope, group[0].name, *self._loops(group[0]))

    def _loops(self, stage: Stage) -> tuple[tuple[str, ...], Leaf]:
        """The loops to open around what a stage does, and that: an update where the outermost one reduces."""
        loops, n = self.state.plans[stage.name].loops, self._spatial_loops(stage)
        if stage.reducer is None:
            return loops, self._store(stage)
        if n == 0:
            return loops, self._update(stage)
        return loops[:n], lambda sc: self._reduce(sc, stage, loops[n:])

    def _spatial_loops(self, stage: Stage) -> int:
        """Loops outside of the first one that reduces."""
        loops = self.state.plans[stage.name].loops
        return next((n for n, x in enumerate(loops) if self.state.is_reduce_loop(stage, x)), len(loops))

    def _reduce(self, scope: Scope, stage: Stage, loops: tuple[str, ...]) -> tuple[Stmt, ...]:
        """Set to the identity, then updated in these loops."""
        return self._identity(scope, stage) + self._updates(_where_terms_are(scope, stage), stage, loops)

    def _identity(self, scope: Scope, stage: Stage) -> tuple[Stmt, ...]:
        assert stage.reducer is not None
        inner = scope.frames[stage.name].plan.loops[self._spatial_loops(stage) :]
        spatial = tuple(x for x in inner if not self.state.is_reduce_loop(stage, x))
        return self._open(
            scope, stage.name, spatial, self._store(stage, Const(stage.reducer.identity)), attach=False
        )

    def _updates(self, scope: Scope, stage: Stage, loops: tuple[str, ...]) -> tuple[Stmt, ...]:
        settled = settle(self.state, scope, stage.name, loops, lambda sc: self._updates(sc, stage, loops))
        return self._open(scope, stage.name, loops, self._update(stage)) if settled is None else settled

    def _store(self, stage: Stage, value: Expr | None = None) -> Leaf:
        def leaf(scope: Scope) -> tuple[Stmt, ...]:
            body = body_at(scope, stage.name, stage.body) if value is None else value
            stream = self.state.plans[stage.name].stream
            stmt = Store(*self._target(scope, stage), body, stream)
            return self._guarded(scope, stage, stmt, spatial=value is not None)

        return leaf

    def _update(self, stage: Stage) -> Leaf:
        def leaf(scope: Scope) -> tuple[Stmt, ...]:
            assert stage.reducer is not None
            body = body_at(scope, stage.name, stage.terms[1])
            return self._guarded(scope, stage, Update(*self._target(scope, stage), stage.reducer, body))

        return leaf

    def _target(self, scope: Scope, stage: Stage) -> tuple[str, tuple[Affine, ...]]:
        place, values = scope.places[stage.name], scope.frames[stage.name].values
        return place.buffer, place.index([values[a.name] for a in stage.axes])

    def _guarded(
        self, scope: Scope, stage: Stage, stmt: Store | Update, spatial: bool = False
    ) -> tuple[Stmt, ...]:
        forms = [c.form for c in scope.frames[stage.name].conditions]
        if spatial:  # the reduce loops are not open around an initial store
            forms = [f for f in forms if all(n in scope.opened for n in f.names)]
        self.budget.spend_code(scope, stmt)
        open_forms = tuple(f for f in dict.fromkeys(forms) if not scope.known.proves(f))
        return (If(open_forms, (stmt,)),) if open_forms else (stmt,)

    # -- loops ------------------------------------------------------------------------------------------

    def _open(
        self, scope: Scope, name: str, loops: tuple[str, ...], leaf: Leaf, attach: bool = True
    ) -> tuple[Stmt, ...]:
        """The remaining loops of a stage around a leaf; ``attach`` emits the stages computed in them."""
        if not loops:
            return leaf(scope)
        scope = scope.deeper()
        self.budget.check_depth(scope.depth)
        frame = scope.frames[name]
        loop, rest = loops[0], loops[1:]

        def inside(sc: Scope) -> tuple[Stmt, ...]:
            return self._iteration(sc, name, loop, rest, leaf, attach)

        if frame.plan.leaves(loop) != (loop,):
            return self._open_fused(scope, frame, loop, inside)
        variable = frame.variable(loop)
        kind = frame.plan.kind(loop)
        extent, limits, facts = clamp(scope, frame, variable, kind)
        first, more = starts(scope, frame, variable, kind)
        if attach:
            check_iterations(scope, self._followers(name, loop), extent, bool(limits or first))
        if extent <= 0:
            return ()
        if extent == 1 and not limits and not first:
            return inside(scope.fix(name, variable, constant(0)))
        if kind is LoopKind.VECTOR:
            self.budget.check_lanes(variable, extent)
        full = extent if limits or first else full_trips(self.state, scope, name, loops, extent)
        if full < extent:
            return self._with_remainder(scope, frame, variable, extent, full, loops, leaf, attach)
        known = scope.known.with_range(variable, 0, extent - 1)
        for fact in facts + more:
            known = known.with_fact(fact)
        bounds = {**frame.bounds, variable: Bound(extent, kind)}
        opened = replace(scope.put(replace(frame, bounds=bounds)), known=known)
        opened = replace(opened, opened=scope.opened | {variable})
        body = inside(opened)
        return (For(variable, extent, limits, kind, body, first),) if body else ()

    def _open_fused(self, scope: Scope, frame: Frame, loop: str, inside: Leaf) -> tuple[Stmt, ...]:
        """A fused loop, and what it was fused from recovered by division; variables of one trip are 0."""
        variable, extent = frame.variable(loop), frame.extents[loop]
        lets = _recovered(frame, loop)
        trips = {let.var: frame.extents[let.var.removeprefix(f"{frame.stage.name}.")] for let in lets}
        for name in (n for n, trip in {variable: extent, **trips}.items() if trip == 1):
            scope = scope.fix(frame.stage.name, name, constant(0))
        if extent == 1:
            return inside(scope)
        known = scope.known.with_range(variable, 0, extent - 1)
        lets = [let for let in lets if trips[let.var] > 1]
        for let in lets:
            if let.var not in known.ranges:
                known = known.with_range(let.var, 0, trips[let.var] - 1)
        opened = scope.opened | {variable} | {let.var for let in lets}
        body = inside(replace(scope, known=known, opened=opened))
        for let in reversed(lets):
            body = (replace(let, body=body),)
        return (For(variable, extent, (), frame.plan.kind(loop), body),)

    def _with_remainder(
        self, scope: Scope, frame: Frame, variable: str, extent: int, full: int,
        loops: tuple[str, ...], leaf: Leaf, attach: bool,
    ) -> tuple[Stmt, ...]:  # fmt: skip
        """Whole trips as a loop, each remaining trip as code of its own."""
        name = frame.stage.name
        out: tuple[Stmt, ...] = ()
        if full:
            whole = scope.shorten(name, variable, full)
            for follower in self._followers(name, loops[0]) if attach else ():
                mine = scope.frames[follower.name].outermost
                whole = whole.shorten(follower.name, mine, full)
            out = self._open(whole, name, loops, leaf, attach)
        for trip in range(full, extent):
            here = scope.fix(name, variable, constant(trip))
            out += self._iteration(here, name, loops[0], loops[1:], leaf, attach)
        return out

    def _followers(self, name: str, loop: str) -> tuple[Stage, ...]:
        """The stages that run along in this loop."""
        return self._group(name)[1:] if loop == self.state.plans[name].loops[0] else ()

    def _iteration(
        self, scope: Scope, name: str, loop: str, rest: tuple[str, ...], leaf: Leaf, attach: bool
    ) -> tuple[Stmt, ...]:
        """One iteration of a freshly opened loop: its stage's part, then those of its followers."""
        out = self._settle(scope, name, loop, rest, leaf, attach)
        leading = scope.frames[name].variable(loop)
        for stage in self._followers(name, loop) if attach else ():
            mine = scope.frames[stage.name].outermost
            along = scope.fix(stage.name, mine, scope.fixed.get(leading, var(leading)))
            (own, *inner), do = self._loops(stage)
            out += self._settle(along, stage.name, own, tuple(inner), do, attach)
        return out

    def _settle(
        self, scope: Scope, name: str, loop: str, rest: tuple[str, ...], leaf: Leaf, attach: bool
    ) -> tuple[Stmt, ...]:
        """Inside a freshly opened loop: decide tails, emit what is computed or packed here, go on."""

        def again(sc: Scope) -> tuple[Stmt, ...]:
            return self._settle(sc, name, loop, rest, leaf, attach)

        settled = settle(self.state, scope, name, rest, again)
        if settled is not None:
            return settled
        if not attach:
            return self._open(scope, name, rest, leaf, attach)

        scope, copies, buffers = self._packs(scope, f"{name}.{loop}")

        def go_on(sc: Scope) -> tuple[Stmt, ...]:
            return self._unswitched(sc, name, rest, leaf)

        out = copies + self._hosted(scope, self.state.attached.get((name, loop), ()), go_on)
        for buffer in reversed(buffers):
            self.budget.spend_stack(buffer)
            out = (Alloc(buffer, out),)
        return out

    def _unswitched(
        self, scope: Scope, name: str, rest: tuple[str, ...], leaf: Leaf, versions: int = _MOST_VERSIONS
    ) -> tuple[Stmt, ...]:
        """The rest of an elementwise stage's loops; twice if a guard is decided outside of them, so that
        padding is filled and data copied by loops without tests."""
        frame = scope.frames[name]
        hosts = any((name, loop) in self.state.attached for loop in rest)
        worth = rest and versions > 1 and frame.stage.reducer is None and not hosts
        guard = settled_guard(scope, frame) if worth else None
        if guard is None:
            return self._open(scope, name, rest, leaf)
        left = tuple(f for f in guard if not scope.known.proves(f))
        known = scope.known
        for form in left:
            known = known.with_fact(form)
        inside = replace(scope, known=known)
        outside = replace(scope, refuted=scope.refuted | {guard})
        then, orelse = (self._unswitched(sc, name, rest, leaf, versions // 2) for sc in (inside, outside))
        return (If(left, then, orelse),)

    # -- stages and packs inside loops --------------------------------------------------------------------

    def _hosted(self, scope: Scope, names: tuple[str, ...], go_on: Leaf) -> tuple[Stmt, ...]:
        """Stages computed at this loop, each in a local buffer, then the rest of the loop."""
        if not names:
            return go_on(scope)
        self.budget.check_depth(scope.depth + len(names))
        scope = scope.deeper()
        group = {stage: region_of(self.state, scope, stage) for stage in self._group(names[0])}
        buffers = []
        for stage, spans in group.items():
            mine = [spans[a.name] for a in stage.axes]
            order = self.state.storage_order(stage)
            buffer = Buffer(stage.name, tuple(mine[d].extent for d in order), stage.dtype, Role.LOCAL)
            self.budget.spend_stack(buffer)
            place = Place(buffer.name, tuple(s.base for s in mine), order)
            scope = replace(scope, places={**scope.places, stage.name: place})
            buffers.append(buffer)
        done = {stage.name for stage in group}
        left = tuple(n for n in names if n not in done)
        out = self._stages(scope, group) + self._hosted(scope, left, go_on)
        for buffer in reversed(buffers):
            out = (Alloc(buffer, out),)
        return out


def _recovered(frame: Frame, loop: str) -> list[Let]:
    """The variables that a fused loop was made of, outermost first, their bodies still empty."""
    infos = {d.name: d for d in frame.plan.derivations if isinstance(d, FuseInfo)}
    info = infos.get(loop)
    if info is None:
        return []
    whole, second = var(frame.variable(loop)), frame.extents[info.second]
    return [
        Let(frame.variable(info.first), LetOp.DIV, whole, second, ()),
        Let(frame.variable(info.second), LetOp.MOD, whole, second, ()),
        *_recovered(frame, info.first),
        *_recovered(frame, info.second),
    ]


def _where_terms_are(scope: Scope, stage: Stage) -> Scope:
    """The scope in which a reduction's conditions on its terms are conditions of its frame."""
    frame = scope.frames[stage.name]
    forms = (c.substitute(frame.values) for c in stage.terms[0])
    guards = tuple(Condition(f, Tail.PEEL, term=True) for f in forms if not scope.known.proves(f))
    return scope.put(replace(frame, conditions=frame.conditions + guards))
