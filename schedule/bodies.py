"""Bodies: a stage's expression at one place of the nest, over buffers and loop variables."""

from dataclasses import replace

from tunesmith.ir.affine import Affine, constant, var
from tunesmith.ir.expr import Expr, Load, Within, children, loads, rebuild, walk
from tunesmith.schedule.frame import Frame, Span
from tunesmith.schedule.regions import scope_around
from tunesmith.schedule.scope import Copy, Scope, has_vector
from tunesmith.schedule.state import State
from tunesmith.schedule.steps import IllegalStep

__all__ = ["body_at", "settled_guard", "without_needless_guards"]


def body_at(scope: Scope, stage: str, e: Expr) -> Expr:
    """Loads go to where the tensors are, or to their packed copies; conditions that always hold go."""
    values = scope.frames[stage].values
    match e:
        case Load(tensor, index):
            at = tuple(i.substitute(values) for i in index)
            copy = scope.copies.get((stage, tensor))
            if copy is not None:
                return _load_packed(scope, copy, at)
            place = scope.places[tensor]
            return Load(place.buffer, place.index(at))
        case Within(conds, a, b):
            forms = tuple(c.substitute(values) for c in conds)
            if forms in scope.refuted:
                return body_at(scope, stage, b)
            left = tuple(f for f in forms if not scope.known.proves(f))
            inner = body_at(scope, stage, a)
            return Within(left, inner, body_at(scope, stage, b)) if left else inner
        case _:
            return rebuild(e, tuple(body_at(scope, stage, c) for c in children(e)))


def settled_guard(scope: Scope, frame: Frame) -> tuple[Affine, ...] | None:
    """The conditions of a guard in the stage's body that are decided by the loops open already."""
    waiting: list[Expr] = [frame.stage.body]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Within):
            waiting.extend(children(node))
            continue
        forms = tuple(c.substitute(frame.values) for c in node.conds)
        if forms in scope.refuted:
            waiting.append(node.b)
            continue
        if all(scope.known.proves(f) for f in forms):
            waiting.append(node.a)
            continue
        names = {n for f in forms for n in f.names}
        if names and names <= scope.opened and not has_vector(names, frame.bounds):
            return forms
        waiting.extend((node.a, node.b))
    return None


def _load_packed(scope: Scope, copy: Copy, at: tuple[Affine, ...]) -> Load:
    """The element of a copy where the loops stand; it must be what the reader would load from the operand."""
    if tuple(i.substitute(scope.fixed) for i in copy.index) != at:
        raise IllegalStep(copy.pack, "a tail reads other elements there than were packed")
    for loop, extent in zip(copy.pack.loops, copy.extents, strict=True):
        if loop not in scope.opened or scope.known.ranges[loop][1] >= extent:
            raise IllegalStep(copy.pack, f"{loop} reaches past what was packed")
    return Load(copy.pack.result, tuple(var(x).substitute(scope.fixed) for x in copy.pack.loops))


def without_needless_guards(state: State, scope: Scope, frame: Frame) -> Frame:
    """The frame without the conditions that hold its stage within its shape, where that can do no harm:
    what it reads exists outside as well, and nobody reads what it computes there."""
    bare = _bare(frame)
    harmless = frame.plan.at is not None and _reads_what_is_there(state, scope.put(bare), bare)
    return bare if harmless else frame


def _bare(frame: Frame) -> Frame:
    return replace(frame, conditions=tuple(c for c in frame.conditions if not c.domain))


def _reads_what_is_there(state: State, scope: Scope, frame: Frame) -> bool:
    stage = frame.stage
    conds, body = stage.terms
    if any(isinstance(n, Within) for n in walk(body)):
        return False
    known = scope.known
    for form in (*(c.substitute(frame.values) for c in conds), *(c.form for c in frame.conditions)):
        known = known.with_fact(form)
    for load in loads(body):
        if (stage.name, load.tensor) in scope.copies:
            continue
        spans = _there(state, scope, stage.name, load.tensor)
        if spans is None:
            return False
        for i, span in zip(load.index, spans, strict=True):
            beyond = i.substitute(frame.values) - span.base
            if not (known.proves(beyond) and known.proves(constant(span.extent - 1) - beyond)):
                return False
    return True


def _there(state: State, scope: Scope, reader: str, tensor: str) -> tuple[Span, ...] | None:
    """Indices of a tensor at which something is written for a reader; None where that is not known."""
    plan = state.plans.get(tensor)
    if plan is None or plan.at is None or plan.at[0] != reader:
        at_root = all(b == Affine() for b in scope.places[tensor].bases)
        return tuple(Span(Affine(), n) for n in state.program.tensors[tensor].shape) if at_root else None
    inner = state.program.stage(tensor)
    inside = scope_around(state, scope, inner)
    frame = inside.frames[tensor]
    bare = _bare(frame)
    if bare != frame and not _reads_what_is_there(state, inside.put(bare), bare):
        return None
    return tuple(frame.spans[a.name] for a in inner.axes)
