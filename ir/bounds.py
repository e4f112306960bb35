"""What is known about index expressions: ranges of axes, conditions that hold, accesses in range."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tunesmith.ir.affine import Affine, Range, constant, interval
from tunesmith.ir.expr import Const, Expr, Load, Within, children, loads, rebuild
from tunesmith.ir.program import Axis

__all__ = ["axis_ranges", "implied", "negation", "out_of_range", "protect", "tighten"]

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


def axis_ranges(axes: Iterable[Axis]) -> dict[str, Range]:
    return {a.name: (0, a.extent - 1) for a in axes}


def negation(cond: Affine) -> Affine:
    """The condition that holds exactly where ``cond`` does not."""
    return -cond - 1


def tighten(conds: Sequence[Affine], ranges: Mapping[str, Range]) -> dict[str, Range] | None:
    """Ranges of the variables where the conditions hold; None if they hold nowhere.

    Exact for conditions on one variable; others only rule out what no value of the variables allows.
    """
    out = dict(ranges)
    for cond in conds:
        if len(cond.terms) == 1:
            ((name, c),) = cond.terms
            lo, hi = out[name]
            out[name] = (max(lo, -(cond.const // c)), hi) if c > 0 else (lo, min(hi, cond.const // -c))
            if out[name][0] > out[name][1]:
                return None
    if any(interval(cond, out)[1] < 0 for cond in conds):
        return None
    return out


def implied(target: Affine, conds: Sequence[Affine], ranges: Mapping[str, Range]) -> bool:
    """Whether ``target >= 0`` follows from the ranges and one of the conditions (sufficient only)."""
    if interval(target, ranges)[0] >= 0:
        return True
    return any(_follows(target, cond, ranges) for cond in conds)


def _follows(target: Affine, cond: Affine, ranges: Mapping[str, Range]) -> bool:
    """q*target - p*cond > -q and cond >= 0 give q*target > -q, hence target >= 0 among integers."""
    for name, c in cond.terms:
        t = target.coefficient(name)
        if t * c > 0:
            q, p = abs(c), abs(t)
            if interval(target * q - cond * p, ranges)[0] > -q:
                return True
    return False


def out_of_range(
    index: Affine, extent: int, conds: Sequence[Affine], ranges: Mapping[str, Range]
) -> int | None:
    """A value outside ``[0, extent)`` that the index may take where the conditions hold, or None."""
    inner = tighten(conds, ranges)
    if inner is None:
        return None
    if not implied(index, conds, inner):
        return interval(index, inner)[0]
    if not implied(constant(extent - 1) - index, conds, inner):
        return interval(index, inner)[1]
    return None


def protect(e: Expr, ranges: Mapping[str, Range], shapes: Shapes, conds: tuple[Affine, ...] = ()) -> Expr:
    """Drop conditions that always hold, and guard the other branch of a ``Within`` where it needs it.

    ``where(i < 3, a[i], b[i - 3])`` reads b out of bounds unless its branch is guarded as well.
    """
    if not isinstance(e, Within):
        return rebuild(e, tuple(protect(c, ranges, shapes, conds) for c in children(e)))
    inner = tighten(conds, ranges)
    needed = tuple(dict.fromkeys(c for c in e.conds if inner is None or not implied(c, conds, inner)))
    if not needed:
        if not loads(e.b):
            return protect(e.a, ranges, shapes, conds)
        needed = e.conds[:1]  # a tensor that the text reads stays read
    a = protect(e.a, ranges, shapes, conds + needed)
    if len(needed) > 1 or _in_range(e.b, ranges, shapes, conds):
        return Within(needed, a, protect(e.b, ranges, shapes, conds))
    other = negation(needed[0])
    b = protect(e.b, ranges, shapes, (*conds, other))
    return Within(needed, a, Within((other,), b, Const(0.0)))


def _in_range(e: Expr, ranges: Mapping[str, Range], shapes: Shapes, conds: tuple[Affine, ...]) -> bool:
    match e:
        case Load(tensor, index):
            return all(
                out_of_range(i, n, conds, ranges) is None for i, n in zip(index, shapes[tensor], strict=True)
            )
        case Within(inner, a, b):
            return _in_range(a, ranges, shapes, conds + inner) and _in_range(b, ranges, shapes, conds)
        case _:
            return all(_in_range(c, ranges, shapes, conds) for c in children(e))
