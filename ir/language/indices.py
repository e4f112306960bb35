"""Index expressions and conditions on indices: affine in the axes, or an error that says why not."""

import ast
from collections.abc import Callable, Container

from tunesmith.ir.affine import Affine, constant
from tunesmith.ir.language.signature import read_integer
from tunesmith.ir.language.source import Source

__all__ = ["is_index_condition", "read_conditions", "read_index"]

_HUGE = 1 << 63
_INSTEAD = "an index must be affine in the axes: sums of axes, integers and axes times integers"


def read_index(node: ast.expr, lookup: Callable[[ast.Name], Affine], source: Source) -> Affine:
    """``lookup`` gives the axis that a name stands for, or raises."""
    return _fitting(node, _affine(node, lookup, source), source)


def _fitting(node: ast.AST, e: Affine, source: Source) -> Affine:
    if max(abs(e.const), *(abs(c) for _, c in e.terms), 0) > _HUGE:
        source.fail(node, "the index does not fit in 64 bits")
    return e


def _affine(node: ast.expr, lookup: Callable[[ast.Name], Affine], source: Source) -> Affine:
    if (integer := read_integer(node)) is not None:
        return constant(integer)
    match node:
        case ast.Name():
            return lookup(node)
        case ast.UnaryOp(op=ast.USub(), operand=a):
            return -read_index(a, lookup, source)
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            return read_index(a, lookup, source) + read_index(b, lookup, source)
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return read_index(a, lookup, source) - read_index(b, lookup, source)
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return _product(node, read_index(a, lookup, source), read_index(b, lookup, source), source)
        case ast.Slice():
            source.fail(node, "slices are not supported; use axes, with extents given as y[i:8] on the left")
        case ast.Constant():
            source.fail(node, "an index must be an integer")
        case ast.Subscript():
            source.fail(node, f"an index that depends on data is not supported; {_INSTEAD}")
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod()):
            source.fail(node, f"// and % are not supported in an index; {_INSTEAD}")
        case _:
            source.fail(node, _INSTEAD)


def _product(node: ast.AST, a: Affine, b: Affine, source: Source) -> Affine:
    if a.terms and b.terms:
        source.fail(node, f"a product of axes is not supported; {_INSTEAD}")
    return a * b.const if a.terms else b * a.const


def is_index_condition(node: ast.expr, tensors: Container[str]) -> bool:
    """Whether a condition of ``where`` is about indices, not values."""
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    if not names or any(n in tensors or n in ("inf", "nan") for n in names):
        return False
    return not any(isinstance(n, ast.Subscript | ast.Call) for n in ast.walk(node))


def read_conditions(
    node: ast.expr, lookup: Callable[[ast.Name], Affine], source: Source
) -> tuple[Affine, ...]:
    """``1 <= i and i + j < 8`` as affine expressions that are all at least 0 where it holds."""
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return tuple(c for part in parts for c in read_conditions(part, lookup, source))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [read_index(n, lookup, source) for n in (left, *comparators)]
            pairs = zip(values, ops, values[1:], strict=False)
            return tuple(
                _checked(node, c, source) for a, op, b in pairs for c in _compared(node, a, op, b, source)
            )
        case _:
            source.fail(node, "a condition on indices is made of comparisons joined by and")


def _checked(node: ast.AST, cond: Affine, source: Source) -> Affine:
    if not cond.terms:
        source.fail(node, "a comparison in the condition does not depend on any axis")
    return _fitting(node, cond, source)


def _compared(node: ast.AST, a: Affine, op: ast.cmpop, b: Affine, source: Source) -> tuple[Affine, ...]:
    match op:
        case ast.Lt():
            return (b - a - 1,)
        case ast.LtE():
            return (b - a,)
        case ast.Gt():
            return (a - b - 1,)
        case ast.GtE():
            return (a - b,)
        case ast.Eq():
            return (a - b, b - a)
        case _:
            source.fail(node, "indices are compared with <, <=, >, >= and ==")
