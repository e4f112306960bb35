"""Padding inside sums: terms that are a product with a zero of the padding, and sums without them.

An element of the padding that is left out contributes nothing, even against an infinite or undefined factor;
one that is multiplied gives NaN there. Kernels do either.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tunesmith.ir.affine import Affine
from tunesmith.ir.cost import least_flops
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Const,
    Expr,
    Load,
    Reducer,
    Within,
    substitute,
    transform_loads,
    walk,
)
from tunesmith.ir.program import Program, Stage

__all__ = ["inlined", "needed_flops", "share_of_terms", "without_padding"]

_MOST_COUNTED = 1 << 20  # points of an index space


def inlined(program: Program, name: str) -> Program:
    """The program without an elementwise stage that is no output: its readers compute it themselves.

    Products of a sum with a zero of padding become absent terms.
    """
    producer = program.stage(name)
    axes = [a.name for a in producer.axes]

    def body_at(load: Load) -> Expr:
        if load.tensor != name:
            return load
        return substitute(producer.body, dict(zip(axes, load.index, strict=True)))

    def reader(stage: Stage) -> Stage:
        body = transform_loads(stage.body, body_at)
        return replace(stage, body=_without_zero_terms(body) if stage.reducer is Reducer.SUM else body)

    left = (s for s in program.stages if s.name != name)
    return program.with_stages(tuple(reader(s) if name in s.reads else s for s in left))


def _without_zero_terms(e: Expr) -> Expr:
    """A product with a factor that is zero outside of some conditions, as a product that is absent there."""
    if not isinstance(e, Binary) or e.op is not BinaryOp.MUL:
        return e
    a, b = _without_zero_terms(e.a), _without_zero_terms(e.b)
    match a, b:
        case Within(conds, value, Const(0.0)), _:
            return Within(conds, _without_zero_terms(Binary(e.op, value, b)), Const(0.0))
        case _, Within(conds, value, Const(0.0)):
            return Within(conds, Binary(e.op, a, value), Const(0.0))
        case _:
            return Binary(e.op, a, b)


def without_padding(program: Program) -> Program:
    """The program with all padding that sums multiply left out of them."""
    for stage in program.stages:
        readers = program.consumers(stage.name)
        pads = stage.reducer is None and any(isinstance(e, Within) for e in walk(stage.body))
        if pads and stage.name not in program.outputs and any(r.reducer is Reducer.SUM for r in readers):
            program = inlined(program, stage.name)
    return program


def needed_flops(program: Program) -> int:
    """Operations that no kernel can do without, to be held against a peak of multiply-adds: none with
    padding, and of expressions that occur more often, or not for each point of the domain, as many as have
    other values. A multiplication counts two: one addition comes in the same instruction, and another can
    run beside it on units of its own. Additions beyond these count one."""
    return sum(math.ceil(least_flops(s) * share_of_terms(s)) for s in without_padding(program).stages)


def share_of_terms(stage: Stage) -> float:
    """The part of a reduction's index space in which it has terms at all."""
    return _share(stage.terms[0], {a.name: a.extent for a in stage.all_axes})


def _share(conds: Sequence[Affine], extents: Mapping[str, int]) -> float:
    """The part of an index space where the conditions hold; those on the same axes are taken together."""
    groups: dict[tuple[str, ...], list[Affine]] = {}
    for form in conds:
        groups.setdefault(form.names, []).append(form)
    share = 1.0
    for names, forms in groups.items():
        if math.prod(extents[n] for n in names) > _MOST_COUNTED:
            continue
        grids = dict(zip(names, np.ix_(*(np.arange(extents[n]) for n in names)), strict=True))
        holds = [sum((grids[n] * c for n, c in f.terms), np.asarray(f.const)) >= 0 for f in forms]
        share *= float(np.mean(np.logical_and.reduce(np.broadcast_arrays(*holds))))
    return share
