"""What a program costs at the least: nominal operations and bytes that must move."""

import math

from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Binary, Expr, Select, Unary, walk
from tunesmith.ir.program import Program, Stage

__all__ = ["dominant_dtype", "flops", "min_bytes", "operations", "stage_flops"]


def flops(program: Program) -> int:
    """Nominal operations of all stages: 2MNK for a matrix product, whatever a schedule makes of it."""
    return sum(stage_flops(s) for s in program.stages)


def stage_flops(stage: Stage) -> int:
    """Points of the domain times the operations in the body, and one more for joining in a reduction.

    Arithmetic, functions, max, min and select count 1; loads, comparisons and padding count 0.
    """
    domain = math.prod(a.extent for a in stage.all_axes)
    return domain * (operations(stage.body) + (stage.reducer is not None))


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
