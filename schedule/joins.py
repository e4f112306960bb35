"""Joined loops: when stages may run in one, each iteration doing the leader's part and then the others'.

Two loops become one where they have the same iterations, and where an iteration of the later stage reads of
the earlier one only what it, or an iteration before it, writes. Iteration ``t`` of the earlier stage writes
all elements from ``c * t`` up to ``c * (t + 1)`` along one of its axes, so that it is enough to look at the
largest index that the later stage reads there.
"""

from collections.abc import Sequence

from tunesmith.ir.affine import Affine, var
from tunesmith.ir.expr import loads
from tunesmith.ir.program import Stage
from tunesmith.schedule.frame import Frame
from tunesmith.schedule.scope import Scope
from tunesmith.schedule.steps import IllegalStep, Join
from tunesmith.schedule.tails import clamp, starts

__all__ = ["check_iterations", "check_order"]


def check_iterations(scope: Scope, followers: Sequence[Stage], extent: int, is_limited: bool) -> None:
    """Whether the followers' outermost loops have the leader's iterations: ``extent`` of them, none left out
    for a reason known only at run time. Raises IllegalStep."""
    for stage in followers:
        frame = scope.frames[stage.name]
        kind = frame.bounds[frame.outermost].kind
        mine, limits, _ = clamp(scope, frame, frame.outermost, kind)
        first, _ = starts(scope, frame, frame.outermost, kind)
        if is_limited or limits or first:
            raise IllegalStep(_step(frame), f"where {frame.outermost} begins or ends varies")
        if mine != extent:
            raise IllegalStep(_step(frame), f"{mine} iterations of {frame.outermost}, {extent} of the leader")


def check_order(scope: Scope, group: Sequence[Stage]) -> None:
    """Whether stages read of those before them, in one joined loop, what is written by then. Raises
    IllegalStep."""
    for n, later in enumerate(group):
        for earlier in group[:n]:
            for load in loads(later.body):
                if load.tensor == earlier.name:
                    _check_read(scope, scope.frames[earlier.name], scope.frames[later.name], load.index)


def _check_read(scope: Scope, earlier: Frame, later: Frame, index: Sequence[Affine]) -> None:
    axis = earlier.plan.axis_of(earlier.plan.loops[0])
    dimension = next((d for d, a in enumerate(earlier.stage.axes) if a.name == axis), None)
    if dimension is None:
        raise IllegalStep(_step(later), f"{earlier.stage.name} is complete only after {earlier.outermost}")
    ends = _end(scope, earlier, axis)
    if ends is None:
        raise IllegalStep(_step(later), f"an iteration of {earlier.outermost} leaves gaps along {axis}")
    now = {later.outermost: var(earlier.outermost)}
    known = scope.known
    for condition in later.conditions:
        known = known.with_fact(condition.form.substitute(now))
    if not known.proves(ends - index[dimension].substitute(later.values).substitute(now)):
        raise IllegalStep(_step(later), f"it reads {earlier.stage.name} before it is computed")


def _end(scope: Scope, frame: Frame, axis: str) -> Affine | None:
    """The last index along an axis that is computed after an iteration of the outermost loop; None where
    those before it are not all computed."""
    value, span = frame.values[axis], frame.spans[axis]
    if frame.bounds[frame.outermost].extent == 1:
        return span.base + (span.extent - 1)
    step = value.coefficient(frame.outermost)
    inner = [(c, n) for n, c in value.terms if n in frame.bounds and n != frame.outermost]
    width = 1
    for c, name in sorted(inner):
        if not 0 < c <= width:
            return None
        width += c * (frame.bounds[name].extent - 1)
    if not 0 < step <= width:
        return None
    return span.base + (var(frame.outermost) + 1) * step - 1


def _step(frame: Frame) -> Join:
    assert frame.plan.leader is not None
    return Join(frame.stage.name, frame.plan.leader)
