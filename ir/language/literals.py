"""Literal arguments of array functions: integers, pairs, numbers, truth values."""

import ast

from tunesmith.ir.language.signature import read_integer
from tunesmith.ir.language.source import Source

__all__ = ["axis_in", "integer", "integers", "number", "pairs", "truth"]


def integers(node: ast.expr, source: Source) -> tuple[int, ...]:
    """``3`` or ``(0, -1)``."""
    items = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    values = [read_integer(item) for item in items]
    if any(v is None for v in values):
        source.fail(node, "an integer or a tuple of integers is needed here")
    return tuple(v for v in values if v is not None)


def integer(node: ast.expr, source: Source) -> int:
    value = read_integer(node)
    if value is None:
        source.fail(node, "an integer is needed here")
    return value


def pairs(node: ast.expr, source: Source) -> tuple[tuple[int, int], ...]:
    """``((0, 0), (1, 1))``."""
    items = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    out = []
    for item in items:
        values = integers(item, source)
        if not isinstance(item, ast.Tuple | ast.List) or len(values) != 2:
            source.fail(item, "a pair (before, after) is needed for each dimension")
        out.append((values[0], values[1]))
    if not out:
        source.fail(node, "pairs (before, after) are needed, one a dimension")
    return tuple(out)


def number(node: ast.expr, source: Source) -> float:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -number(inner, source)
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                source.fail(node, "the number is too large")
        case _:
            source.fail(node, "a number is needed here")


def truth(node: ast.expr, source: Source) -> bool:
    match node:
        case ast.Constant(value=bool(value)):
            return value
        case _:
            source.fail(node, "True or False is needed here")


def axis_in(rank: int, axis: int, node: ast.AST, source: Source) -> int:
    """The dimension that ``axis`` names; negative ones count from the last."""
    if not -rank <= axis < rank:
        source.fail(node, f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank
