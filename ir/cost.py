"""What a program costs at the least: nominal operations and bytes that must move."""

import math

from tunesmith.ir.affine import Affine
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Binary, BinaryOp, Expr, Load, Reducer, Select, Unary, UnaryOp, Within, walk
from tunesmith.ir.program import Program, Stage

__all__ = ["dominant_dtype", "flops", "least_flops", "min_bytes", "operations", "stage_flops"]


def flops(program: Program) -> int:
    """Nominal operations of all stages: 2MNK for a matrix product, whatever a schedule makes of it."""
    return sum(stage_flops(s) for s in program.stages)


def stage_flops(stage: Stage) -> int:
    """Points of the domain times the operations in the body, and one more for joining in a reduction.

    Arithmetic, functions, max, min and select count 1; loads, comparisons and padding count 0.
    """
    domain = math.prod(a.extent for a in stage.all_axes)
    return domain * (operations(stage.body) + (stage.reducer is not None))


def least_flops(stage: Stage) -> int:
    """What a stage takes of the units that multiply and add, at the least: see ``needed_flops``."""
    extents = {a.name: a.extent for a in stage.all_axes}
    domain = math.prod(extents.values())
    multiplied = domain if stage.reducer is Reducer.PROD else 0
    added = domain if stage.reducer not in (None, Reducer.PROD) else 0
    for e in dict.fromkeys(walk(stage.body)):
        if isinstance(e, Unary | Binary | Select):
            values = math.prod(extents[n] for n in _axes(e))
            multiplied += values * (not _is_light(e))
            added += values * _is_light(e)
    return 2 * multiplied + max(0, added - 2 * multiplied)


_LIGHT = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MAX, BinaryOp.MIN, UnaryOp.NEG, UnaryOp.ABS)


def _is_light(e: Unary | Binary | Select) -> bool:
    """Whether units that do not multiply can do it."""
    return isinstance(e, Select) or e.op in _LIGHT


def _axes(e: Expr) -> set[str]:
    """Those that the value depends on."""
    forms = (i for n in walk(e) for i in (n.index if isinstance(n, Load) else _conditions(n)))
    return {name for form in forms for name in form.names}


def _conditions(e: Expr) -> tuple[Affine, ...]:
    return e.conds if isinstance(e, Within) else ()


def operations(e: Expr) -> int:
    """Operations of one evaluation, as ``stage_flops`` counts them."""
    return sum(isinstance(n, Unary | Binary | Select) for n in walk(e))


def min_bytes(program: Program) -> int:
    """Bytes of inputs and outputs, each moved once."""
    tensors = [*program.inputs, *(program.tensors[name] for name in program.outputs)]
    return sum(t.size_bytes for t in tensors)


def dominant_dtype(program: Program) -> DType:
    """The type in which most operations are done."""
    totals: dict[DType, int] = {}
    for s in program.stages:
        totals[s.dtype] = totals.get(s.dtype, 0) + stage_flops(s)
    return max(totals, key=lambda t: totals[t])
