"""Frames: one stage at one place of the nest, its axes written as affine forms of its loops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tunesmith.ir.affine import Affine, constant, interval, var
from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.program import Stage
from tunesmith.schedule.proof import Knowledge
from tunesmith.schedule.state import FuseInfo, Plan, SplitInfo
from tunesmith.schedule.steps import Tail

__all__ = ["Bound", "Condition", "Frame", "Span", "exchange", "make_frame", "span_of"]


@dataclass(frozen=True, slots=True)
class Span:
    """Indices ``base … base + extent - 1`` of one dimension; base is affine in opened variables."""

    base: Affine
    extent: int


@dataclass(frozen=True, slots=True)
class Condition:
    """``form >= 0`` must hold where the stage is computed; ``tail`` says how to see to it.

    ``domain``: it holds the stage within its own shape, rather than a split within its loop. ``term``: it
    says where a reduction has terms.
    """

    form: Affine
    tail: Tail
    domain: bool = False
    term: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A loop variable's static extent and kind."""

    extent: int
    kind: LoopKind


@dataclass(frozen=True)
class Frame:
    """``values``: axis -> affine form of loop variables (global index). ``spans``: the region computed.

    ``bounds``: every index variable of the stage; ``extents``: every loop by its plan name (fused ones too).
    """

    stage: Stage
    plan: Plan
    spans: Mapping[str, Span]
    values: Mapping[str, Affine]
    bounds: Mapping[str, Bound]
    extents: Mapping[str, int]
    conditions: tuple[Condition, ...]

    def variable(self, loop: str) -> str:
        return f"{self.stage.name}.{loop}"

    @property
    def outermost(self) -> str:
        """The variable of the outermost loop."""
        return self.variable(self.plan.loops[0])

    def replace_form(self, old: Affine, new: Affine) -> "Frame":
        """Put ``new`` for every multiple of ``old`` in the axes' values and in the conditions on them."""
        return replace(
            self,
            values={a: exchange(v, old, new) for a, v in self.values.items()},
            conditions=tuple(replace(c, form=exchange(c.form, old, new)) for c in self.conditions),
        )

    def fix(self, name: str, value: Affine) -> "Frame":
        at = {name: value}
        return replace(
            self,
            values={a: v.substitute(at) for a, v in self.values.items()},
            conditions=tuple(replace(c, form=c.form.substitute(at)) for c in self.conditions),
        )


def exchange(value: Affine, old: Affine, new: Affine) -> Affine:
    """``value`` with ``new`` in place of the multiple of ``old`` in it, if there is one."""
    for name, c in old.terms:
        ratio, left = divmod(value.coefficient(name), c)
        if ratio and not left:
            return value - old * ratio + new * ratio
    return value


def make_frame(stage: Stage, plan: Plan, spans: Mapping[str, Span], known: Knowledge) -> Frame:
    """A stage computed over ``spans`` (by axis); conditions that ``known`` proves are left out."""
    extents = {axis: span.extent for axis, span in spans.items()}
    forms: dict[str, Affine] = {}
    splits: list[SplitInfo] = []
    for d in plan.derivations:
        if isinstance(d, FuseInfo):
            extents[d.name] = extents[d.first] * extents[d.second]
            continue
        splits.append(d)
        extents.update(zip(d.parts, _part_extents(extents[d.parent], d.factors), strict=True))
    for d in reversed(splits):
        forms[d.parent] = _value(stage.name, d, forms)
    local = {a: forms.get(a, var(f"{stage.name}.{a}")) for a in spans}
    bounds = {
        f"{stage.name}.{leaf}": Bound(extents[leaf], plan.kind(loop))
        for loop in plan.loops
        for leaf in plan.leaves(loop)
    }
    values = {a: spans[a].base + local[a] for a in spans}
    conditions = [
        Condition(constant(extents[d.parent] - 1) - forms[d.parent], Tail(d.tail))
        for d in splits
        if extents[d.parent] % _product(d.factors)
    ]
    known = Knowledge({**known.ranges, **{v: (0, b.extent - 1) for v, b in bounds.items()}}, known.facts)
    for axis in stage.axes if plan.at is not None else ():
        for form in (values[axis.name], constant(axis.extent - 1) - values[axis.name]):
            if not known.proves(form):
                conditions.append(Condition(form, Tail.MASK, domain=True))
    return Frame(stage, plan, spans, values, bounds, extents, tuple(conditions))


def _product(factors: Sequence[int]) -> int:
    n = 1
    for f in factors:
        n *= f
    return n


def _part_extents(extent: int, factors: Sequence[int]) -> tuple[int, ...]:
    """Trips of every part; a tile larger than the loop is as long as the loop."""
    out: list[int] = []
    stride = 1
    for factor in reversed(factors):
        out.append(min(factor, -(-extent // stride)))
        stride *= factor
    return (-(-extent // stride), *reversed(out))


def _value(stage: str, split: SplitInfo, forms: Mapping[str, Affine]) -> Affine:
    total = Affine()
    stride = 1
    for part, factor in zip(reversed(split.parts), (*reversed(split.factors), 1), strict=True):
        total = total + forms.get(part, var(f"{stage}.{part}")) * stride
        stride *= factor
    return total


def span_of(
    form: Affine, opened: frozenset[str], bounds: Mapping[str, Bound], conditions: Sequence[Condition]
) -> Span:
    """The indices that ``form`` takes while the variables that are not opened run within ``conditions``."""
    base = Affine(tuple((n, c) for n, c in form.terms if n in opened), form.const)
    inner = Affine(tuple((n, c) for n, c in form.terms if n not in opened))
    lo, hi = interval(inner, {n: (0, bounds[n].extent - 1) for n in inner.names})
    for condition in conditions:
        if (condition.form + inner).terms == ():  # inner <= a constant
            hi = min(hi, (condition.form + inner).const)
    return Span(base + lo, hi - lo + 1)
