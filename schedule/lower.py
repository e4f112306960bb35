"""Lowering: a scheduled program to an explicit loop nest.

Walks the stages at the root in order; opening a loop clamps it to what its conditions leave, splits off
remainders that need their own code, emits the stages computed there over the region their readers need, and
goes on inside. Everything that varies from place to place travels in an immutable Scope.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd

from tunesmith.ir.affine import Affine, constant, interval, var
from tunesmith.ir.expr import Const, Expr, Load, Within, children, loads, rebuild
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
from tunesmith.schedule.frame import Bound, Condition, Frame, Span, make_frame, span_of
from tunesmith.schedule.proof import Knowledge
from tunesmith.schedule.state import Plan, State, replay
from tunesmith.schedule.steps import PREPARE, ROOT, IllegalStep, Pack, Schedule, Tail

__all__ = ["Limits", "lower", "lower_state"]

_STATIC = (LoopKind.UNROLL, LoopKind.VECTOR)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on generated code: lanes of a vector loop, statements after unrolling, bytes on the stack."""

    lanes: int = 64
    statements: int = 6000
    stack_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's elements are: its buffer, and the global index of the buffer's first element."""

    buffer: str
    bases: tuple[Affine, ...]


@dataclass(frozen=True)
class Scope:
    known: Knowledge = field(default_factory=Knowledge)
    frames: Mapping[str, Frame] = field(default_factory=dict)
    opened: frozenset[str] = frozenset()
    fixed: Mapping[str, Affine] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)

    def with_frame(self, frame: Frame) -> "Scope":
        known = self.known
        for name, b in frame.bounds.items():
            known = known.with_range(name, 0, b.extent - 1)
        return replace(self, known=known, frames={**self.frames, frame.stage.name: frame})

    def put(self, frame: Frame) -> "Scope":
        return replace(self, frames={**self.frames, frame.stage.name: frame})

    def fix(self, stage: str, name: str, value: int) -> "Scope":
        return replace(
            self,
            known=self.known.fix(name, value),
            frames={**self.frames, stage: self.frames[stage].fix(name, value)},
            opened=self.opened | {name},
            fixed={**self.fixed, name: constant(value)},
        )

    def bounds(self) -> dict[str, Bound]:
        return {n: b for f in self.frames.values() for n, b in f.bounds.items()}


Leaf = Callable[[Scope], tuple[Stmt, ...]]


def lower(program: Program, schedule: Schedule, limits: Limits | None = None) -> LoopNest:
    """The loop nest of a scheduled program. Raises IllegalStep."""
    return lower_state(replay(program, schedule), limits or Limits())


def lower_state(state: State, limits: Limits) -> LoopNest:
    return _Lowering(state, limits).nest()


class _Lowering:
    def __init__(self, state: State, limits: Limits) -> None:
        self.state = state
        self.limits = limits
        self.program = state.program
        self.stack_bytes = 0
        self.packed: dict[tuple[str, str], Pack] = {(p.stage, p.tensor): p for p in state.packs}

    # -- the whole nest ---------------------------------------------------------------------------------

    def nest(self) -> LoopNest:
        places = {t.name: Place(t.name, (Affine(),) * len(t.shape)) for t in self.program.tensors.values()}
        scope = Scope(places=places)
        buffers: list[Buffer] = [
            Buffer(t.name, t.shape, t.dtype, Role.INPUT, t.const) for t in self.program.inputs
        ]
        prepare, body = [], []
        packed, temps = [], []
        for pack in self.state.packs:
            if pack.at not in (PREPARE, ROOT):
                continue
            buffer, stmts = self._pack(scope, pack)
            (prepare if pack.at == PREPARE else body).extend(stmts)
            (packed if pack.at == PREPARE else temps).append(buffer)
        for stage in self.program.stages:
            if self.state.plans[stage.name].at is None:
                body.extend(self._stage(scope, stage, self._whole(stage)))
                if stage.name not in self.program.outputs:
                    temps.append(Buffer(stage.name, stage.shape, stage.dtype, Role.TEMP))
        outputs = [self.program.stage(name) for name in self.program.outputs]
        buffers += packed + [Buffer(s.name, s.shape, s.dtype, Role.OUTPUT) for s in outputs] + temps
        return LoopNest(self.program.name, tuple(buffers), tuple(prepare), tuple(body))

    def _whole(self, stage: Stage) -> dict[str, Span]:
        return {a.name: Span(Affine(), a.extent) for a in stage.all_axes}

    # -- one stage --------------------------------------------------------------------------------------

    def _stage(self, scope: Scope, stage: Stage, spans: Mapping[str, Span]) -> tuple[Stmt, ...]:
        frame = make_frame(stage, self.state.plans[stage.name], spans, scope.known)
        scope = scope.with_frame(frame)
        if frame.plan.at is not None and self._reads_in_bounds(scope, frame):
            frame = replace(frame, conditions=tuple(c for c in frame.conditions if not c.domain))
            scope = scope.put(frame)
        if stage.reducer is None:
            return self._open(scope, stage.name, frame.plan.loops, self._store(stage))
        return self._reduce(scope, stage)

    def _reduce(self, scope: Scope, stage: Stage) -> tuple[Stmt, ...]:
        """Set to the identity just outside the first reduce loop, then update."""
        assert stage.reducer is not None
        loops = scope.frames[stage.name].plan.loops
        first = next(i for i, x in enumerate(loops) if self.state.is_reduce_loop(stage, x))
        spatial = tuple(x for x in loops[first:] if not self.state.is_reduce_loop(stage, x))
        identity = Const(stage.reducer.identity)

        def inside(sc: Scope) -> tuple[Stmt, ...]:
            init = self._open(sc, stage.name, spatial, self._store(stage, identity), attach=False)
            return init + self._open(sc, stage.name, loops[first:], self._update(stage))

        return self._open(scope, stage.name, loops[:first], inside)

    def _store(self, stage: Stage, value: Expr | None = None) -> Leaf:
        def leaf(scope: Scope) -> tuple[Stmt, ...]:
            body = self._expression(scope, stage.name, stage.body) if value is None else value
            reduce = value is not None
            stream = self.state.plans[stage.name].stream
            return self._guarded(
                scope, stage, Store(*self._target(scope, stage), body, stream), spatial=reduce
            )

        return leaf

    def _update(self, stage: Stage) -> Leaf:
        def leaf(scope: Scope) -> tuple[Stmt, ...]:
            assert stage.reducer is not None
            body = self._expression(scope, stage.name, stage.body)
            return self._guarded(scope, stage, Update(*self._target(scope, stage), stage.reducer, body))

        return leaf

    def _target(self, scope: Scope, stage: Stage) -> tuple[str, tuple[Affine, ...]]:
        place, values = scope.places[stage.name], scope.frames[stage.name].values
        return place.buffer, tuple(
            values[a.name] - base for a, base in zip(stage.axes, place.bases, strict=True)
        )

    def _guarded(self, scope: Scope, stage: Stage, stmt: Stmt, spatial: bool = False) -> tuple[Stmt, ...]:
        forms = [c.form for c in scope.frames[stage.name].conditions]
        if spatial:  # the reduce loops are not open around an initial store
            forms = [f for f in forms if all(n in scope.opened for n in f.names)]
        open_forms = tuple(f for f in dict.fromkeys(forms) if not scope.known.proves(f))
        return (If(open_forms, (stmt,)),) if open_forms else (stmt,)

    # -- loops ------------------------------------------------------------------------------------------

    def _open(
        self, scope: Scope, name: str, loops: tuple[str, ...], leaf: Leaf, attach: bool = True
    ) -> tuple[Stmt, ...]:
        """The remaining loops of a stage around a leaf; ``attach`` emits the stages computed in them."""
        if not loops:
            return leaf(scope)
        frame = scope.frames[name]
        loop, rest = loops[0], loops[1:]

        def inside(sc: Scope) -> tuple[Stmt, ...]:
            return self._settle(sc, name, loop, rest, leaf, attach)

        if frame.plan.leaves(loop) != (loop,):
            return self._open_fused(scope, frame, loop, inside)
        variable = frame.variable(loop)
        kind = frame.plan.kind(loop)
        extent, limits, facts = self._clamp(scope, frame, variable, kind)
        if extent == 1 and not limits:
            return inside(scope.fix(name, variable, 0))
        if kind is LoopKind.VECTOR and extent > self.limits.lanes:
            raise IllegalStep(f"vectorize {variable}", f"{extent} lanes, at most {self.limits.lanes}")
        full = self._full_trips(scope, frame, variable, kind, extent) if not limits else extent
        if full < extent:
            return self._with_remainder(scope, frame, variable, extent, full, loops, leaf, attach)
        known = scope.known.with_range(variable, 0, extent - 1)
        for fact in facts:
            known = known.with_fact(fact)
        bounds = {**frame.bounds, variable: Bound(extent, kind)}
        opened = replace(scope.put(replace(frame, bounds=bounds)), known=known)
        opened = replace(opened, opened=scope.opened | {variable})
        return (For(variable, extent, limits, kind, inside(opened)),)

    def _open_fused(self, scope: Scope, frame: Frame, loop: str, inside: Leaf) -> tuple[Stmt, ...]:
        """A fused loop, and the variables it was fused from recovered by division."""
        lets: list[tuple[str, LetOp, str, int]] = []
        infos = {d.name: d for d in frame.plan.derivations if not hasattr(d, "parent")}

        def recover(name: str) -> None:
            info = infos.get(name)
            if info is None:
                return
            second = frame.extents[info.second]
            lets.append((frame.variable(info.first), LetOp.DIV, frame.variable(name), second))
            lets.append((frame.variable(info.second), LetOp.MOD, frame.variable(name), second))
            recover(info.first)
            recover(info.second)

        recover(loop)
        variable = frame.variable(loop)
        extent = frame.extents[loop]
        known = scope.known.with_range(variable, 0, extent - 1)
        for name, _, _, _ in lets:
            if name not in known.ranges:
                known = known.with_range(
                    name, 0, frame.extents[name.removeprefix(f"{frame.stage.name}.")] - 1
                )
        opened = replace(
            scope, known=known, opened=scope.opened | {variable} | {name for name, _, _, _ in lets}
        )
        body = inside(opened)
        for name, op, source, operand in reversed(lets):
            body = (Let(name, op, var(source), operand, body),)
        return (For(variable, extent, (), frame.plan.kind(loop), body),)

    def _clamp(
        self, scope: Scope, frame: Frame, variable: str, kind: LoopKind
    ) -> tuple[int, tuple[Affine, ...], list[Affine]]:
        """Static extent, dynamic limits and the facts they establish, from the stage's conditions."""
        extent = frame.bounds[variable].extent
        limits: list[Affine] = []
        facts: list[Affine] = []
        for condition in frame.conditions:
            step = -condition.form.coefficient(variable)
            if step <= 0:
                continue
            best = _inner_at_best(condition.form, scope.opened | {variable}, frame.bounds)
            rest = best + var(variable) * step
            if not rest.terms:
                extent = min(extent, max(rest.const // step + 1, 0))
            elif kind is LoopKind.SERIAL and not scope.known.proves(best):
                if any(c % step for _, c in rest.terms):
                    continue
                limits.append(Affine(tuple((n, c // step) for n, c in rest.terms), rest.const // step + 1))
                facts.append(best)
        return extent, tuple(dict.fromkeys(limits)), facts

    def _full_trips(self, scope: Scope, frame: Frame, variable: str, kind: LoopKind, extent: int) -> int:
        """Trips before a remainder that needs its own code; ``extent`` when there is none."""
        if kind in (LoopKind.PARALLEL, LoopKind.VECTOR):
            return extent
        for condition in frame.conditions:
            form = condition.form
            step = -form.coefficient(variable)
            inner = [n for n in form.names if n not in scope.opened and n != variable]
            if step <= 0 or not inner or (condition.tail is Tail.MASK and _has_vector(inner, frame.bounds)):
                continue
            if any(n in scope.opened for n in form.names) or not _all_static(inner, frame.bounds):
                continue
            worst = interval(form + var(variable) * step, _ranges(inner, frame.bounds))[0]
            extent = min(extent, max(worst // step + 1, 0))
        return extent

    def _with_remainder(
        self, scope: Scope, frame: Frame, variable: str, extent: int, full: int,
        loops: tuple[str, ...], leaf: Leaf, attach: bool,
    ) -> tuple[Stmt, ...]:  # fmt: skip
        """Whole trips as a loop, each remaining trip as code of its own."""
        out: tuple[Stmt, ...] = ()
        if full:
            bound = replace(frame.bounds[variable], extent=full)
            whole = scope.put(replace(frame, bounds={**frame.bounds, variable: bound}))
            out = self._open(whole, frame.stage.name, loops, leaf, attach)
        for trip in range(full, extent):
            fixed = scope.fix(frame.stage.name, variable, trip)
            out += self._settle(fixed, frame.stage.name, loops[0], loops[1:], leaf, attach)
        return out

    def _settle(
        self, scope: Scope, name: str, loop: str, rest: tuple[str, ...], leaf: Leaf, attach: bool
    ) -> tuple[Stmt, ...]:
        """Inside a freshly opened loop: decide tails, emit the stages computed here, go on."""
        for condition in scope.frames[name].conditions:
            if scope.known.proves(condition.form):
                continue
            bounds = scope.frames[name].bounds
            inner = [n for n in condition.form.names if n not in scope.opened]
            if not inner or not _all_static(inner, bounds):
                continue
            if condition.tail is Tail.MASK and _has_vector(inner, bounds):
                continue

            def again(sc: Scope) -> tuple[Stmt, ...]:
                return self._settle(sc, name, loop, rest, leaf, attach)

            if condition.tail is Tail.OVERLAP and self._may_overlap(scope, name, condition, rest):
                return self._overlap(scope, name, condition, again)
            stmts = self._specialise(scope, name, condition, again)
            if stmts is not None:
                return stmts
        if attach and (hosted := self.state.attached.get((name, loop), ())):
            return self._hosted(scope, hosted, lambda sc: self._packs_at(sc, name, loop, rest, leaf))
        if attach:
            return self._packs_at(scope, name, loop, rest, leaf)
        return self._open(scope, name, rest, leaf, attach)

    def _specialise(
        self, scope: Scope, name: str, condition: Condition, again: Leaf
    ) -> tuple[Stmt, ...] | None:
        """Two versions of the code: the whole tile, and the one remainder there can be. None: not unique."""
        form, bounds = condition.form, scope.frames[name].bounds
        outer = Affine(tuple((n, c) for n, c in form.terms if n in scope.opened), form.const)
        inner = form - outer
        low, high = interval(inner, _ranges(inner.names, bounds))
        if high > 0 or not outer.terms:
            return None
        span = 1 - low
        stride = gcd(*(c for _, c in outer.terms))
        if span > stride:
            return None
        left = (outer.const + 1) % stride
        whole = _resolve(scope, name, condition, outer + low, None)
        if left == 0 or left >= span:
            return again(whole) if scope.known.proves(outer) else None
        part = _resolve(scope, name, condition, outer + (1 - left), constant(left - 1) + inner)
        return (If((outer + low,), again(whole), again(part)),)

    def _may_overlap(self, scope: Scope, name: str, condition: Condition, rest: tuple[str, ...]) -> bool:
        """Whether the last tile may move back: it fits, nothing accumulates, and what it reads is there."""
        frame = scope.frames[name]
        stage = frame.stage
        inner = [n for n in condition.form.names if n not in scope.opened]
        span = (
            1
            - interval(
                Affine(tuple((n, condition.form.coefficient(n)) for n in inner)), _ranges(inner, frame.bounds)
            )[0]
        )
        total = condition.form.const + 1
        outer = [n for n in condition.form.names if n in scope.opened]
        if span > total or any(condition.form.coefficient(n) >= 0 for n in condition.form.names) or not outer:
            return False
        if any(n not in frame.bounds for n in outer):
            return False
        done = frame.plan.loops[: len(frame.plan.loops) - len(rest)]
        if any(self.state.is_reduce_loop(stage, x) for x in done):
            return False
        if any(n in p.loops for p in self.state.packs for n in outer):
            return False
        hosts = [x for x in done[:-1] if (name, x) in self.state.attached or self._packs_of(name, x)]
        if not hosts:
            return True
        return all(total % -condition.form.coefficient(n) in (0, *range(span, total + 1)) for n in outer)

    def _overlap(self, scope: Scope, name: str, condition: Condition, again: Leaf) -> tuple[Stmt, ...]:
        frame, form = scope.frames[name], condition.form
        outer = -Affine(tuple((n, c) for n, c in form.terms if n in scope.opened))
        low = interval(
            form + outer - form.const, _ranges([n for n in form.names if n not in scope.opened], frame.bounds)
        )[0]
        last = form.const + low  # index of the last place where a whole tile starts
        base = f"{outer.names[-1]}.base"
        conditions = tuple(c for c in frame.conditions if c is not condition)
        moved = replace(frame, conditions=conditions).replace_form(outer, var(base))
        known = scope.known.with_range(base, 0, last)
        inside = replace(scope.put(moved), known=known, opened=scope.opened | {base})
        return (Let(base, LetOp.MIN, outer, last, again(inside)),)

    # -- stages and packs inside loops --------------------------------------------------------------------

    def _hosted(self, scope: Scope, names: tuple[str, ...], go_on: Leaf) -> tuple[Stmt, ...]:
        """Stages computed at this loop, each in a local buffer, then the rest of the loop."""
        if not names:
            return go_on(scope)
        stage = self.program.stage(names[0])
        spans = self._region(scope, stage)
        reduce = {a.name: Span(Affine(), a.extent) for a in stage.reduce_axes}
        by_axis = {a.name: s for a, s in zip(stage.axes, spans, strict=True)} | reduce
        buffer = self._local(stage.name, tuple(s.extent for s in spans), stage)
        place = Place(buffer.name, tuple(s.base for s in spans))
        inside = replace(scope, places={**scope.places, stage.name: place})
        body = self._stage(inside, stage, by_axis) + self._hosted(inside, names[1:], go_on)
        return (Alloc(buffer, body),)

    def _local(self, name: str, shape: tuple[int, ...], stage: Stage) -> Buffer:
        buffer = Buffer(name, shape, stage.dtype, Role.LOCAL)
        self.stack_bytes += buffer.size_bytes
        if buffer.size_bytes > self.limits.stack_bytes:
            raise IllegalStep(
                f"compute_at {name}",
                f"{buffer.size_bytes} bytes on the stack, at most {self.limits.stack_bytes}",
            )
        return buffer

    def _region(self, scope: Scope, producer: Stage) -> list[Span]:
        """What the readers of a stage need of it at this point, dimension by dimension."""
        regions = []
        for reader in self.program.consumers(producer.name):
            spans = self._axis_spans(scope, reader)
            for load in loads(reader.body):
                if load.tensor == producer.name:
                    regions.append([_form_span(i, spans) for i in load.index])
        return [
            _clip(_union([r[d] for r in regions], axis.extent), axis.extent)
            for d, axis in enumerate(producer.axes)
        ]

    def _axis_spans(self, scope: Scope, stage: Stage) -> dict[str, Span]:
        frame = scope.frames.get(stage.name)
        if frame is not None:
            bounds = scope.bounds()
            return {a: span_of(v, scope.opened, bounds, frame.conditions) for a, v in frame.values.items()}
        spans = self._region(scope, stage)
        out = {a.name: s for a, s in zip(stage.axes, spans, strict=True)}
        return out | {a.name: Span(Affine(), a.extent) for a in stage.reduce_axes}

    def _packs_of(self, name: str, loop: str) -> list[Pack]:
        return [p for p in self.state.packs if p.at == f"{name}.{loop}"]

    def _packs_at(
        self, scope: Scope, name: str, loop: str, rest: tuple[str, ...], leaf: Leaf
    ) -> tuple[Stmt, ...]:
        buffers: list[Buffer] = []
        stmts: tuple[Stmt, ...] = ()
        for pack in self._packs_of(name, loop):
            buffer, copy = self._pack(scope, pack)
            buffers.append(buffer)
            stmts += copy
        out = stmts + self._open(scope, name, rest, leaf)
        for buffer in reversed(buffers):
            out = (Alloc(buffer, out),)
        return out

    def _pack(self, scope: Scope, pack: Pack) -> tuple[Buffer, tuple[Stmt, ...]]:
        """The buffer of a packed operand and the loops that fill it; zeros where the operand ends."""
        reader = self.program.stage(pack.stage)
        virtual = self._virtual(scope, reader)
        values, bounds = virtual.frames[reader.name].values, virtual.bounds()
        reads = [x for x in loads(reader.body) if x.tensor == pack.tensor]
        if len({x.index for x in reads}) != 1:
            raise IllegalStep(pack, f"{reader.name} reads {pack.tensor} at several indices")
        names = {loop: f"{pack.result}.{n}" for n, loop in enumerate(pack.loops)}
        extents = [bounds[loop].extent for loop in pack.loops]
        rename = {loop: var(n) for loop, n in names.items()}
        index = tuple(i.substitute(values) for i in reads[0].index)
        for name in dict.fromkeys(n for i in index for n in i.names):
            if name not in names and name not in scope.opened:
                raise IllegalStep(pack, f"{pack.tensor} is read along {name}, which is not packed")
        if any(loop in scope.opened for loop in pack.loops):
            raise IllegalStep(pack, "a packed loop is outside of the place of packing")
        index = tuple(i.substitute(rename) for i in index)
        known = scope.known
        for loop, extent in zip(pack.loops, extents, strict=True):
            known = known.with_range(names[loop], 0, extent - 1)
        tensor = self.program.tensors[pack.tensor]
        forms = [f for i, n in zip(index, tensor.shape, strict=True) for f in (i, constant(n - 1) - i)]
        conds = tuple(f for f in forms if not known.proves(f))
        value: Expr = Load(pack.tensor, index)
        if conds:
            value = Within(conds, value, Const(0.0))
        stmts: tuple[Stmt, ...] = (Store(pack.result, tuple(var(names[x]) for x in pack.loops), value),)
        parallel = pack.at in (ROOT, PREPARE) and self._is_parallel(reader)
        for n, loop in reversed(list(enumerate(pack.loops))):
            kind = _pack_kind(n, len(pack.loops), extents[n], index, names[loop], parallel, self.limits)
            stmts = (For(names[loop], extents[n], (), kind, stmts),)
        role = {PREPARE: Role.PACKED, ROOT: Role.TEMP}.get(pack.at, Role.LOCAL)
        buffer = Buffer(pack.result, tuple(extents), tensor.dtype, role)
        if role is Role.LOCAL and buffer.size_bytes > self.limits.stack_bytes:
            raise IllegalStep(pack, f"{buffer.size_bytes} bytes on the stack")
        return buffer, stmts

    def _is_parallel(self, stage: Stage) -> bool:
        plan: Plan = self.state.plans[stage.name]
        while plan.at is not None:
            plan = self.state.plans[plan.at[0]]
        return LoopKind.PARALLEL in plan.kinds.values()

    def _virtual(self, scope: Scope, stage: Stage) -> Scope:
        """The scope in which a stage would be computed, as if all loops around it were open."""
        if stage.name in scope.frames:
            return scope
        plan = self.state.plans[stage.name]
        if plan.at is None:
            spans = self._whole(stage)
        else:
            host, loop = plan.at
            scope = self._virtual(scope, self.program.stage(host))
            frame = scope.frames[host]
            around = frame.plan.loops[: frame.plan.loops.index(loop) + 1]
            names = {frame.variable(x) for lp in around for x in frame.plan.leaves(lp)}
            scope = replace(scope, opened=scope.opened | names)
            region = self._region(scope, stage)
            spans = {a.name: s for a, s in zip(stage.axes, region, strict=True)}
            spans |= {a.name: Span(Affine(), a.extent) for a in stage.reduce_axes}
        return scope.with_frame(make_frame(stage, plan, spans, scope.known))

    # -- expressions --------------------------------------------------------------------------------------

    def _expression(self, scope: Scope, stage: str, e: Expr) -> Expr:
        """A stage's body over buffers and loop variables; conditions that always hold are dropped."""
        values = scope.frames[stage].values
        match e:
            case Load(tensor, index):
                pack = self.packed.get((stage, tensor))
                if pack is not None:
                    return Load(pack.result, tuple(var(x).substitute(scope.fixed) for x in pack.loops))
                place = scope.places[tensor]
                return Load(
                    place.buffer,
                    tuple(i.substitute(values) - b for i, b in zip(index, place.bases, strict=True)),
                )
            case Within(conds, a, b):
                forms = tuple(c.substitute(values) for c in conds)
                left = tuple(f for f in forms if not scope.known.proves(f))
                inner = self._expression(scope, stage, a)
                return Within(left, inner, self._expression(scope, stage, b)) if left else inner
            case _:
                return rebuild(e, tuple(self._expression(scope, stage, c) for c in children(e)))

    def _reads_in_bounds(self, scope: Scope, frame: Frame) -> bool:
        """Whether a stage may be computed outside of its domain too: all it reads is there."""
        stage = frame.stage
        if any(isinstance(n, Within) for n in _nodes(stage.body)):
            return False
        for load in loads(stage.body):
            if (stage.name, load.tensor) in self.packed:
                continue
            if not all(b == Affine() for b in scope.places[load.tensor].bases):
                return False
            shape = self.program.tensors[load.tensor].shape
            for i, n in zip(load.index, shape, strict=True):
                form = i.substitute(frame.values)
                if not (scope.known.proves(form) and scope.known.proves(constant(n - 1) - form)):
                    return False
        return True


def _nodes(e: Expr) -> list[Expr]:
    return [e, *(n for c in children(e) for n in _nodes(c))]


def _ranges(names: "list[str] | tuple[str, ...]", bounds: Mapping[str, Bound]) -> dict[str, tuple[int, int]]:
    return {n: (0, bounds[n].extent - 1) for n in names}


def _all_static(names: list[str], bounds: Mapping[str, Bound]) -> bool:
    return all(n in bounds and bounds[n].kind in _STATIC for n in names)


def _has_vector(names: list[str], bounds: Mapping[str, Bound]) -> bool:
    return any(bounds[n].kind is LoopKind.VECTOR for n in names)


def _inner_at_best(form: Affine, opened: frozenset[str], bounds: Mapping[str, Bound]) -> Affine:
    """The form with every unopened variable where it makes the form largest."""
    const = form.const
    terms = []
    for n, c in form.terms:
        if n in opened:
            terms.append((n, c))
        elif c > 0:
            const += c * (bounds[n].extent - 1)
    return Affine(tuple(terms), const)


def _resolve(scope: Scope, name: str, condition: Condition, fact: Affine, static: Affine | None) -> Scope:
    """The scope after a test: a fact learnt, the condition gone or reduced to a static one."""
    frame = scope.frames[name]
    others = tuple(c for c in frame.conditions if c is not condition)
    if static is not None:
        others = (*others, replace(condition, form=static, tail=Tail.PEEL))
    known = scope.known.with_fact(fact)
    return replace(scope.put(replace(frame, conditions=others)), known=known)


def _form_span(form: Affine, spans: Mapping[str, Span]) -> Span:
    base, width = constant(form.const), 1
    for name, c in form.terms:
        span = spans[name]
        base = base + span.base * c + (c * (span.extent - 1) if c < 0 else 0)
        width += abs(c) * (span.extent - 1)
    return Span(base, width)


def _union(spans: list[Span], whole: int) -> Span:
    first = spans[0]
    lo, hi = 0, first.extent
    for s in spans[1:]:
        shift = s.base - first.base
        if shift.terms:
            return Span(Affine(), whole)
        lo, hi = min(lo, shift.const), max(hi, shift.const + s.extent)
    return Span(first.base + lo, hi - lo)


def _clip(span: Span, whole: int) -> Span:
    if span.extent >= whole:
        return Span(Affine(), whole)
    if span.base.terms:
        return span
    lo = max(span.base.const, 0)
    return Span(constant(lo), max(min(span.base.const + span.extent, whole) - lo, 1))


def _pack_kind(
    n: int, count: int, extent: int, index: tuple[Affine, ...], name: str, parallel: bool, limits: Limits
) -> LoopKind:
    if n == 0 and parallel and count > 1:
        return LoopKind.PARALLEL
    last = index[-1].coefficient(name) == 1 and not any(i.coefficient(name) for i in index[:-1])
    if n == count - 1 and last and 1 < extent <= limits.lanes:
        return LoopKind.VECTOR
    return LoopKind.SERIAL
