"""Regions: what the readers of a stage need of it at one point of the nest."""

from collections.abc import Mapping
from dataclasses import replace

from tunesmith.ir.affine import Affine, constant
from tunesmith.ir.expr import loads
from tunesmith.ir.program import Stage
from tunesmith.schedule.frame import Span, make_frame, span_of
from tunesmith.schedule.scope import Scope
from tunesmith.schedule.state import State

__all__ = ["region_of", "scope_around", "whole_spans"]


def whole_spans(stage: Stage) -> dict[str, Span]:
    """Every axis from end to end."""
    return {a.name: Span(Affine(), a.extent) for a in stage.all_axes}


def region_of(state: State, scope: Scope, producer: Stage) -> dict[str, Span]:
    """What the readers of a stage need of it at this point, axis by axis; reduce axes are needed whole.

    A reader that is not being computed yet is needed where its own readers need it.
    """
    chain = _readers_to_come(state, scope, producer)
    axes: dict[str, dict[str, Span]] = {}
    for stage in reversed(state.program.stages):
        if stage.name in chain:
            axes[stage.name] = _needed(state, scope, stage, axes)
    return axes[producer.name]


def _readers_to_come(state: State, scope: Scope, producer: Stage) -> set[str]:
    """The stage, and all between it and the stages whose loops are around."""
    found = {producer.name}
    waiting = [producer.name]
    while waiting:
        for reader in state.readers[waiting.pop()]:
            if reader.name not in scope.frames and reader.name not in found:
                found.add(reader.name)
                waiting.append(reader.name)
    return found


def _needed(
    state: State, scope: Scope, producer: Stage, later: Mapping[str, Mapping[str, Span]]
) -> dict[str, Span]:
    regions = []
    for reader in state.readers[producer.name]:
        spans = later[reader.name] if reader.name in later else _axis_spans(scope, reader)
        for load in loads(reader.body):
            if load.tensor == producer.name:
                regions.append([_form_span(i, spans) for i in load.index])
    needed = {
        axis.name: _clip(_union([r[d] for r in regions], axis.extent), axis.extent)
        for d, axis in enumerate(producer.axes)
    }
    return whole_spans(producer) | needed


def _axis_spans(scope: Scope, stage: Stage) -> dict[str, Span]:
    """The values that the axes of a stage take inside this point."""
    frame, bounds = scope.frames[stage.name], scope.bounds()
    return {a: span_of(v, scope.opened, bounds, frame.conditions) for a, v in frame.values.items()}


def scope_around(state: State, scope: Scope, stage: Stage) -> Scope:
    """The scope in which a stage would be computed, as if all loops around it were open."""
    if stage.name in scope.frames:
        return scope
    plan = state.plans[stage.name]
    spans = whole_spans(stage)
    if plan.at is not None:
        host, loop = plan.at
        scope = scope_around(state, scope, state.program.stage(host))
        frame = scope.frames[host]
        around = frame.plan.loops[: frame.plan.loops.index(loop) + 1]
        names = {frame.variable(x) for lp in around for x in frame.plan.leaves(lp)}
        scope = replace(scope, opened=scope.opened | names)
        spans = region_of(state, scope, stage)
    return scope.with_frame(make_frame(stage, plan, spans, scope.known))


def _form_span(form: Affine, spans: Mapping[str, Span]) -> Span:
    base, width = constant(form.const), 1
    for name, c in form.terms:
        span = spans[name]
        base = base + span.base * c + (c * (span.extent - 1) if c < 0 else 0)
        width += abs(c) * (span.extent - 1)
    return Span(base, width)


def _union(spans: list[Span], whole: int) -> Span:
    """The smallest span around all of them; the whole axis where their distance is not known."""
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
