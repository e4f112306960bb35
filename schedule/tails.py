"""Tails: what is done about conditions that do not hold everywhere.

A loop that reaches past a condition is cut short (``clamp``); an unrolled loop gets code of its own for the
trips after the last whole one (``full_trips``); elsewhere (``settle``) there are two versions of the code
or a last tile that moves back over its neighbour (``overlap``). What is left becomes a guard or a mask.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from tunesmith.ir.affine import Affine, Range, constant, interval, var
from tunesmith.ir.loopnest import If, Let, LetOp, LoopKind, Stmt
from tunesmith.schedule.frame import Bound, Condition, Frame, exchange
from tunesmith.schedule.scope import Leaf, Scope, all_static, has_vector, ranges_of
from tunesmith.schedule.state import State
from tunesmith.schedule.steps import Tail

__all__ = ["clamp", "full_trips", "settle", "starts"]

_MOST_EDGES = 4  # values of a loop that get code of their own because something is absent there
_MOST_PEELED = 8  # trips that get code of their own; tiles with gaps can have many that are not whole


def clamp(
    scope: Scope, frame: Frame, variable: str, kind: LoopKind
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
            if any(c % step for _, c in rest.terms) or has_vector(rest.names, frame.bounds):
                continue
            limits.append(Affine(tuple((n, c // step) for n, c in rest.terms), rest.const // step + 1))
            facts.append(best)
    return extent, tuple(dict.fromkeys(limits)), facts


def starts(
    scope: Scope, frame: Frame, variable: str, kind: LoopKind
) -> tuple[tuple[Affine, ...], list[Affine]]:
    """Where a serial loop begins, and the facts that this establishes, from the stage's conditions."""
    out: list[Affine] = []
    facts: list[Affine] = []
    for condition in frame.conditions if kind is LoopKind.SERIAL else ():
        step = condition.form.coefficient(variable)
        if step <= 0:
            continue
        best = _inner_at_best(condition.form, scope.opened | {variable}, frame.bounds)
        rest = best - var(variable) * step
        divides = all(c % step == 0 for _, c in rest.terms)
        if not divides or scope.known.proves(rest) or has_vector(rest.names, frame.bounds):
            continue
        out.append(Affine(tuple((n, -(c // step)) for n, c in rest.terms), -(rest.const // step)))
        facts.append(best)
    return tuple(dict.fromkeys(out)), facts


def full_trips(state: State, scope: Scope, name: str, loops: tuple[str, ...], extent: int) -> int:
    """Trips of a stage's next loop before a remainder that needs its own code; ``extent`` when there is none.

    ``loops`` are the next loop and those inside it.
    """
    frame = scope.frames[name]
    variable = frame.variable(loops[0])
    if frame.plan.kind(loops[0]) in (LoopKind.PARALLEL, LoopKind.VECTOR):
        return extent
    opened = replace(scope, opened=scope.opened | {variable})
    full = extent
    for condition in frame.conditions:
        form = condition.form
        step = -form.coefficient(variable)
        inner = [n for n in form.names if n not in scope.opened and n != variable]
        if step <= 0 or not inner or _is_masked(condition, inner, frame.bounds):
            continue
        if any(n in scope.opened for n in form.names) or not all_static(inner, frame.bounds):
            continue
        if condition.tail is Tail.OVERLAP and _may_overlap(state, opened, name, condition, loops[1:]):
            continue
        worst = interval(form + var(variable) * step, ranges_of(inner, frame.bounds))[0]
        trips = max(worst // step + 1, 0)
        if trips >= extent - _MOST_PEELED:
            full = min(full, trips)
    return full


def _is_masked(condition: Condition, inner: list[str], bounds: Mapping[str, Bound]) -> bool:
    return condition.tail is Tail.MASK and has_vector(inner, bounds)


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


def settle(
    state: State, scope: Scope, name: str, rest: tuple[str, ...], again: Leaf
) -> tuple[Stmt, ...] | None:
    """See to one condition of a stage that can be decided where its loop has just been opened.

    ``again`` emits the same place with the condition gone; ``rest`` are the loops still to be opened.
    None: nothing is left to decide here.
    """
    bounds = scope.frames[name].bounds
    for condition in scope.frames[name].conditions:
        if scope.known.proves(condition.form):
            continue
        inner = [n for n in condition.form.names if n not in scope.opened]
        outer = [n for n in condition.form.names if n in scope.opened]
        if condition.term and not inner and outer and not has_vector(outer, bounds):
            return _guard(scope, name, condition, again)
        if not inner or not all_static(inner, bounds) or _is_masked(condition, inner, bounds):
            continue
        if has_vector(outer, bounds):  # one answer a lane: a mask, later
            continue
        if condition.tail is Tail.OVERLAP and _may_overlap(state, scope, name, condition, rest):
            return _overlap(scope, name, condition, again)
        stmts = _specialise(scope, name, condition, again)
        if stmts is None and condition.term and not _waits(state, scope, name, inner):
            stmts = _at_edges(scope, name, condition, again)
        if stmts is not None:
            return stmts
    return None


def _specialise(scope: Scope, name: str, condition: Condition, again: Leaf) -> tuple[Stmt, ...] | None:
    """Two versions of the code: the whole tile, and the one remainder there can be. None: not unique."""
    form, bounds = condition.form, scope.frames[name].bounds
    outer = Affine(tuple((n, c) for n, c in form.terms if n in scope.opened), form.const)
    inner = form - outer
    low, high = interval(inner, ranges_of(inner.names, bounds))
    if high > 0 or not outer.terms:
        return None
    span = 1 - low
    stride = gcd(*(c for _, c in outer.terms))
    if span > stride:
        return None
    left = (outer.const + 1) % stride
    whole = _resolve(scope, name, condition, outer + low, None)
    if left == 0 or left >= span:  # all of the tile, or nothing
        return _unless_known(scope, outer, again(whole))
    part = _resolve(scope, name, condition, outer + (1 - left), constant(left - 1) + inner)
    return (If((outer + low,), again(whole), _unless_known(scope, outer, again(part))),)


def _guard(scope: Scope, name: str, condition: Condition, again: Leaf) -> tuple[Stmt, ...]:
    """What is inside, if there are terms."""
    form = condition.form
    return (If((form,), again(_resolve(scope, name, condition, form, None))),)


def _waits(state: State, scope: Scope, name: str, inner: list[str]) -> bool:
    """Whether a condition is decided by unrolled reduce loops alone: a guard around each of their steps costs
    less than versions of all of them."""
    frame = scope.frames[name]
    tile = [n for n in inner if frame.bounds[n].extent > 1]
    return all(state.is_reduce_loop(frame.stage, n.removeprefix(f"{name}.")) for n in tile)


def _at_edges(scope: Scope, name: str, condition: Condition, again: Leaf) -> tuple[Stmt, ...] | None:
    """Code for where the condition holds for all of the tile, and code of its own for every place where it
    does not, if these are few values of some loops that are open."""
    form, bounds, ranges = condition.form, scope.frames[name].bounds, scope.known.ranges
    outer = Affine(tuple((n, c) for n, c in form.terms if n in scope.opened), form.const)
    inner = form - outer
    whole = outer + interval(inner, ranges_of(inner.names, bounds))[0]
    edge = -whole - 1
    if not outer.terms or interval(edge, ranges)[1] < 0:
        return None
    left = {n: _left(edge, n, ranges) for n in outer.names}
    variable = min(left, key=lambda n: left[n][1] - left[n][0])
    low, high = left[variable]
    if high - low >= _MOST_EDGES:
        return None
    pins = {n: a for n, (a, b) in left.items() if a == b} or {variable: low}
    part = again(scope.pin(pins))
    if low < high:
        beyond = replace(scope, known=scope.known.with_range(variable, low + 1, high).with_fact(edge))
        part = (If((var(variable) - (low + 1),), again(beyond), part),)
    if interval(whole, ranges)[1] < 0:
        return part
    return (If((whole,), again(_resolve(scope, name, condition, whole, None)), part),)


def _left(edge: Affine, name: str, ranges: Mapping[str, Range]) -> Range:
    """The values of a variable for which ``edge >= 0`` is possible."""
    low, high = ranges[name]
    c = edge.coefficient(name)
    most = interval(edge - var(name) * c, ranges)[1]  # c * value >= -most
    return (max(low, -(most // c)), high) if c > 0 else (low, min(high, most // -c))


def _unless_known(scope: Scope, form: Affine, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return stmts if scope.known.proves(form) else (If((form,), stmts),)


def _resolve(scope: Scope, name: str, condition: Condition, fact: Affine, static: Affine | None) -> Scope:
    """The scope after a test: a fact learnt, the condition gone or reduced to a static one."""
    frame = scope.frames[name]
    others = tuple(c for c in frame.conditions if c is not condition)
    if static is not None:
        others = (*others, replace(condition, form=static, tail=Tail.PEEL))
    known = scope.known.with_fact(fact)
    return replace(scope.put(replace(frame, conditions=others)), known=known)


def _may_overlap(state: State, scope: Scope, name: str, condition: Condition, rest: tuple[str, ...]) -> bool:
    """Whether the last tile may move back: it fits, nothing accumulates, and what it reads is there."""
    frame, form = scope.frames[name], condition.form
    outer = [n for n in form.names if n in scope.opened]
    span = _dense_span(form, scope, frame.bounds)
    total = form.const + 1
    if span is None or span > total or not outer or any(n not in frame.bounds for n in outer):
        return False
    if _is_cut(scope, frame, condition):
        return False
    done = frame.plan.loops[: len(frame.plan.loops) - len(rest)]
    if any(state.is_reduce_loop(frame.stage, x) for x in done):
        return False
    if frame.stage.reducer is not None and any(frame.plan.kind(x) is LoopKind.PARALLEL for x in done):
        return False  # two threads would accumulate into the same elements
    if any(n in p.loops for p in state.packs for n in outer) or any(
        state.packs_at(name, x) for x in done[:-1]
    ):
        return False
    hosts = [n for n, x in enumerate(done[:-1]) if (name, x) in state.attached]
    starts = Affine(tuple((n, c) for n, c in form.terms if n in scope.opened), form.const)
    if hosts and not scope.known.proves(starts):
        return False  # tiles that lie outside as a whole would move farther
    return all(_stays_inside(frame, form, done[: n + 1], total, span) for n in hosts)


def _dense_span(form: Affine, scope: Scope, bounds: Mapping[str, Bound]) -> int | None:
    """Elements of a tile, counted along its axis; None if there are gaps between them."""
    if any(c >= 0 for _, c in form.terms):
        return None
    span = 1
    for step, name in sorted((-c, n) for n, c in form.terms if n not in scope.opened):
        if step > span:
            return None
        span += step * (bounds[name].extent - 1)
    return span


def _is_cut(scope: Scope, frame: Frame, condition: Condition) -> bool:
    """Whether another condition leaves out elements of a tile, wherever the tile moves."""
    form = condition.form
    inner = {n for n in form.names if n not in scope.opened}
    outer = Affine(tuple((n, c) for n, c in form.terms if n in scope.opened))
    others = (c.form for c in frame.conditions if c is not condition and not scope.known.proves(c.form))
    return any(inner & set(f.names) and exchange(f, outer, Affine()) == f for f in others)


def _stays_inside(frame: Frame, form: Affine, opened: tuple[str, ...], total: int, span: int) -> bool:
    """Whether a last tile that moves back needs no more than what the loops opened so far hold."""
    variables = [frame.variable(leaf) for loop in opened for leaf in frame.plan.leaves(loop)]
    chunk = gcd(*(form.coefficient(n) for n in variables))
    return chunk == 0 or (total % chunk or chunk) >= span


def _overlap(scope: Scope, name: str, condition: Condition, again: Leaf) -> tuple[Stmt, ...]:
    frame, form = scope.frames[name], condition.form
    outer = -Affine(tuple((n, c) for n, c in form.terms if n in scope.opened))
    inner = [n for n in form.names if n not in scope.opened]
    low = interval(form + outer - form.const, ranges_of(inner, frame.bounds))[0]
    last = form.const + low  # index of the last place where a whole tile starts
    base = f"{outer.names[-1]}.base"
    others = tuple(c for c in frame.conditions if c is not condition)
    moved = replace(frame, conditions=others).replace_form(outer, var(base))
    known = scope.known.with_range(base, 0, last)
    inside = replace(scope.put(moved), known=known, opened=scope.opened | {base})
    return (Let(base, LetOp.MIN, outer, last, again(inside)),)
