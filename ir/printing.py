"""Programs as text of the expression language, in index form."""

from collections.abc import Iterator, Mapping

from tunesmith.ir.affine import var
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    UnaryOp,
    Within,
    children,
    substitute,
)
from tunesmith.ir.program import Axis, Program, Stage, Tensor

__all__ = ["format_program"]

_INFIX = {BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.DIV: "/"}
_COMPARE = {
    CompareOp.LT: "<",
    CompareOp.LE: "<=",
    CompareOp.GT: ">",
    CompareOp.GE: ">=",
    CompareOp.EQ: "==",
    CompareOp.NE: "!=",
}


def format_program(program: Program) -> str:
    """Text that ``parse`` reads back to a program of the same workload hash.

    Not so for what the language cannot say: an accumulation type of its own, an unused input or reduce axis,
    a reduction repeated along an axis that its body does not use, a stage without loads whose type is not
    the first input's.
    """
    inputs = ", ".join(f"{t.name}: {_type(t)}" for t in program.inputs)
    lines = [f"def {program.name}({inputs}):"]
    shapes = {name: t.shape for name, t in program.tensors.items()}
    lines += [f"    {_statement(_distinct(s, program), shapes)}" for s in program.stages]
    return "\n".join([*lines, f"    return {', '.join(program.outputs)}"]) + "\n"


def _type(t: Tensor) -> str:
    plain = f"{t.dtype}{list(t.shape)}" if t.shape else t.dtype.value
    return f"const[{plain}]" if t.const else plain


def _distinct(stage: Stage, program: Program) -> Stage:
    """The stage with axes that have no tensor's name."""
    taken = {*program.tensors, "inf", "nan", *(a.name for a in stage.all_axes)}
    names: dict[str, str] = {}
    for a in stage.all_axes:
        if a.name in program.tensors or a.name in ("inf", "nan", "axis", "keepdims"):
            names[a.name] = next(n for n in _numbered(a.name) if n not in taken)
            taken.add(names[a.name])
    body = substitute(stage.body, {old: var(new) for old, new in names.items()})
    axes, reduce_axes = (
        tuple(Axis(names.get(a.name, a.name), a.extent) for a in group)
        for group in (stage.axes, stage.reduce_axes)
    )
    return Stage(stage.name, axes, reduce_axes, stage.reducer, body, stage.dtype, stage.accumulate)


def _numbered(name: str) -> Iterator[str]:
    n = 1
    while True:
        yield f"{name}{n}"
        n += 1


def _statement(s: Stage, shapes: Mapping[str, tuple[int, ...]]) -> str:
    known = _inferable(s, shapes)
    axes = ", ".join(a.name if a.name in known else f"{a.name}:{a.extent}" for a in s.axes)
    value = _bare(s.body)
    if s.reducer is not None:
        names = [a.name for a in s.reduce_axes]
        group = names[0] if len(names) == 1 else f"({', '.join(names)})"
        given = [f"{a.name}={a.extent}" for a in s.reduce_axes if a.name not in known]
        value = f"{s.reducer}({', '.join([value, group, *given])})"
    return f"{s.name}[{axes or '()'}] = {value}"


def _inferable(s: Stage, shapes: Mapping[str, tuple[int, ...]]) -> set[str]:
    """Axes that stand alone as an index outside of conditions, everywhere in a dimension of their extent."""
    extents = {a.name: a.extent for a in s.all_axes}
    seen: dict[str, set[int]] = {}
    for load in _unconditional(s.body):
        for i, n in zip(load.index, shapes[load.tensor], strict=True):
            if len(i.terms) == 1 and i == var(i.names[0]):
                seen.setdefault(i.names[0], set()).add(n)
    return {name for name, dims in seen.items() if dims == {extents[name]}}


def _unconditional(e: Expr) -> Iterator[Load]:
    match e:
        case Load():
            yield e
        case Within(_, _, b):
            yield from _unconditional(b)
        case _:
            for c in children(e):
                yield from _unconditional(c)


def _text(e: Expr) -> str:
    match e:
        case Const(value):
            return repr(value)
        case Load(tensor, index):
            return f"{tensor}[{', '.join(map(str, index))}]" if index else tensor
        case Unary(UnaryOp.NEG, a):
            return f"(-{_text(a)})"
        case Unary(op, a):
            return f"{op}({_bare(a)})"
        case Binary(op, a, b) if op in _INFIX:
            return f"({_text(a)} {_INFIX[op]} {_text(b)})"
        case Binary(op, a, b):
            return f"{op}({_bare(a)}, {_bare(b)})"
        case Compare(op, a, b):
            return f"{_text(a)} {_COMPARE[op]} {_text(b)}"
        case Select(cond, a, b):
            return f"where({_text(cond)}, {_bare(a)}, {_bare(b)})"
        case Within(conds, a, b) if not all(c.terms for c in conds):
            return _text(_decided(e))
        case Within(conds, a, b):
            return f"where({' and '.join(f'{c} >= 0' for c in conds)}, {_bare(a)}, {_bare(b)})"


def _decided(e: Within) -> Expr:
    """Conditions without axes are no conditions in the language."""
    if any(not c.terms and c.const < 0 for c in e.conds):
        return e.b
    conds = tuple(c for c in e.conds if c.terms)
    return Within(conds, e.a, e.b) if conds else e.a


def _bare(e: Expr) -> str:
    """Without the outer parentheses, for places that need none."""
    text = _text(e)
    return text[1:-1] if text.startswith("(") else text
