"""Whether a program keeps the rules of its grammar: asked of every program that did not come from a text."""

import keyword
import math
from collections.abc import Iterator, Mapping

from tunesmith.ir.affine import Affine, Range
from tunesmith.ir.bounds import axis_ranges, out_of_range
from tunesmith.ir.errors import LimitError, ProgramError
from tunesmith.ir.expr import Compare, Expr, Load, Select, Within, children
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.program import Axis, Program, Stage, Tensor

__all__ = ["verify_program"]

_INT64 = 1 << 63


def verify_program(program: Program, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raises ``ProgramError`` unless names are unique identifiers, stages are in topological order, extents
    are at least 1, loads have the rank of their tensor and stay in range wherever they are made (given the
    conditions of ``Within``), types agree, every axis in use is declared, and nothing passes the limits.
    """
    _check_count("inputs", len(program.inputs), limits.inputs)
    _check_count("stages", len(program.stages), limits.stages)
    _identifier("program", program.name, limits)
    known: dict[str, Tensor] = {}
    nodes = 0
    for t in program.inputs:
        _new(t.name, known, limits)
        _check_tensor(t, limits)
        known[t.name] = t
    for s in program.stages:
        _new(s.name, known, limits)
        nodes += _nodes(s, limits)
        _check_count("expression nodes", nodes, limits.total_nodes)
        _check_stage(s, known, limits)
        known[s.name] = s.tensor
    _check_outputs(program)


def _check_outputs(program: Program) -> None:
    stages = {s.name for s in program.stages}
    if not program.outputs:
        raise ProgramError("the program has no outputs")
    for name in program.outputs:
        if name not in stages:
            raise ProgramError(f"output {name} is not a stage")
    if len(set(program.outputs)) != len(program.outputs):
        raise ProgramError("an output is named twice")


def _check_count(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise LimitError(f"{count} {what}; the limit is {limit}")


def _identifier(what: str, name: str, limits: Limits) -> None:
    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name):
        raise ProgramError(f"{what} name {name[:80]!a} is not an ASCII identifier")
    _check_count(f"characters in a {what} name", len(name), limits.name)


def _new(name: str, known: Mapping[str, Tensor], limits: Limits) -> None:
    _identifier("tensor", name, limits)
    if name in known:
        raise ProgramError(f"{name} is defined twice")


def _check_tensor(t: Tensor, limits: Limits) -> None:
    _check_count(f"dimensions of {t.name}", len(t.shape), limits.rank)
    for n in t.shape:
        _check_extent(t.name, n, limits)
    _check_count(f"elements of {t.name}", math.prod(t.shape), limits.elements)


def _check_extent(name: str, extent: int, limits: Limits) -> None:
    if extent < 1:
        raise ProgramError(f"{name} has extent {extent}; extents are at least 1")
    if extent > limits.extent:
        raise LimitError(f"{name} has extent {extent}; the limit is {limits.extent}")


def _check_stage(s: Stage, known: Mapping[str, Tensor], limits: Limits) -> None:
    _check_axes(s.name, s.all_axes, limits)
    _check_tensor(s.tensor, limits)
    _check_count(f"points of {s.name}", math.prod(a.extent for a in s.all_axes), limits.domain)
    if (s.reducer is None) != (not s.reduce_axes):
        raise ProgramError(f"{s.name} must have both a reducer and reduce axes, or neither")
    if isinstance(s.body, Compare):
        raise ProgramError(f"{s.name} is a comparison, which is no value")
    _check_types(s, known)
    ranges = axis_ranges(s.all_axes)
    for e, conds in _guarded(s.body, ()):
        _check_count(f"conditions in {s.name}", len(conds), limits.conditions)
        _check_node(s.name, e, conds, ranges, known)


def _check_axes(name: str, axes: tuple[Axis, ...], limits: Limits) -> None:
    _check_count(f"axes of {name}", len(axes), limits.axes)
    for a in axes:
        _identifier("axis", a.name, limits)
        _check_extent(f"axis {a.name} of {name}", a.extent, limits)
    if len({a.name for a in axes}) != len(axes):
        raise ProgramError(f"{name} has two axes of one name")


def _nodes(s: Stage, limits: Limits) -> int:
    """How many nodes the body has."""
    nodes = 0
    stack: list[tuple[Expr, int]] = [(s.body, 1)]
    while stack:
        e, depth = stack.pop()
        nodes += 1
        if nodes > limits.nodes or depth > limits.nesting:
            raise LimitError(
                f"{s.name} has more than {limits.nodes} nodes or {limits.nesting} levels in its expression"
            )
        stack += [(c, depth + 1) for c in children(e)]
    return nodes


def _check_types(s: Stage, known: Mapping[str, Tensor]) -> None:
    for name in s.reads:
        if name not in known:
            raise ProgramError(f"{s.name} reads {name}, which is not defined before it")
        if known[name].dtype is not s.dtype:
            raise ProgramError(f"{s.name} is {s.dtype} and reads {name}, which is {known[name].dtype}")


def _guarded(e: Expr, conds: tuple[Affine, ...]) -> Iterator[tuple[Expr, tuple[Affine, ...]]]:
    """Every node with the conditions that hold where it is evaluated. The other branch of a ``Within``
    may be evaluated anywhere, so it has none from it."""
    yield e, conds
    match e:
        case Within(inner, a, b):
            yield from _guarded(a, conds + inner)
            yield from _guarded(b, conds)
        case _:
            for c in children(e):
                yield from _guarded(c, conds)


def _check_node(
    stage: str, e: Expr, conds: tuple[Affine, ...], ranges: Mapping[str, Range], known: Mapping[str, Tensor]
) -> None:
    match e:
        case Load(tensor, _):
            _check_load(stage, e, known[tensor].shape, conds, ranges)
        case Within(own, _, _):
            for c in own:
                _check_affine(stage, c, ranges)
            if not own:
                raise ProgramError(f"{stage} has a Within without conditions")
        case _:
            pass
    parts = children(e)
    values = parts[1:] if isinstance(e, Select) else parts
    if any(isinstance(v, Compare) for v in values):
        raise ProgramError(f"{stage} uses a comparison as a value")


def _check_load(
    stage: str, e: Load, shape: tuple[int, ...], conds: tuple[Affine, ...], ranges: Mapping[str, Range]
) -> None:
    if len(e.index) != len(shape):
        raise ProgramError(f"{stage} reads {e.tensor} with {len(e.index)} indices, not {len(shape)}")
    for n, (i, extent) in enumerate(zip(e.index, shape, strict=True)):
        _check_affine(stage, i, ranges)
        value = out_of_range(i, extent, conds, ranges)
        if value is not None:
            raise ProgramError(
                f"{stage} reads {e.tensor} out of range: index {i} of dimension {n} reaches {value}, "
                f"the extent is {extent}"
            )


def _check_affine(stage: str, e: Affine, ranges: Mapping[str, Range]) -> None:
    for name in e.names:
        if name not in ranges:
            raise ProgramError(f"{stage} has no axis {name}")
    if e != Affine.of(e.terms, e.const):
        raise ProgramError(f"{stage} has an index whose terms are not in normal form")
    if max(abs(e.const), *(abs(c) for _, c in e.terms), 0) > _INT64:
        raise LimitError(f"{stage} has an index that does not fit in 64 bits")
