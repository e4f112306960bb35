"""The program under construction: tensors by name, stages in order, generated names, limits on size."""

import ast
import math
from typing import NamedTuple

from tunesmith.ir.affine import var
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Expr, Load, Reducer, children, loads, substitute, transform_loads
from tunesmith.ir.language.source import Source
from tunesmith.ir.limits import Limits
from tunesmith.ir.loopnest import format_expr
from tunesmith.ir.program import Axis, Program, Stage, Tensor

__all__ = ["Builder", "Computation"]


class Computation(NamedTuple):
    """A stage that has no name yet."""

    axes: tuple[Axis, ...]
    body: Expr
    reduce_axes: tuple[Axis, ...] = ()
    reducer: Reducer | None = None

    @property
    def key(self) -> str:
        """Equal for computations that differ only in the names of axes."""
        names = {a.name: var(f"#{n}") for n, a in enumerate((*self.axes, *self.reduce_axes))}
        extents = [a.extent for a in self.axes], [a.extent for a in self.reduce_axes]
        return f"{extents} {self.reducer} {format_expr(substitute(self.body, names))}"


class Builder:
    """Grows statement by statement: ``begin`` with the name of the result, generate stages, ``define`` it."""

    def __init__(
        self, source: Source, limits: Limits, inputs: tuple[Tensor, ...], reserved: set[str]
    ) -> None:
        self.source = source
        self.limits = limits
        self.inputs = inputs
        self.tensors = {t.name: t for t in inputs}
        self.stages: dict[str, Stage] = {}
        self._hint = ""
        self._reserved = reserved | set(self.tensors)
        self._generated: list[str] = []  # by the current statement
        self._name_of: dict[str, str] = {}
        self._nodes = 0
        self._sizes: dict[int, tuple[Expr, int, int]] = {}

    def begin(self, hint: str) -> None:
        self._hint = hint
        self._generated = []
        self._sizes = {}

    def unique(self, base: str) -> str:
        """A name that neither the text nor an earlier stage uses."""
        base = base[: self.limits.name - 8]
        name, n = base, 2
        while name in self._reserved:
            name, n = f"{base}_{n}", n + 1
        self._reserved.add(name)
        return name

    def checked(self, e: Expr, node: ast.AST) -> Expr:
        """The expression, if it is within the limits. Cheap when each node is checked as it is built."""
        size, depth = self._measure(e)
        if size > self.limits.nodes:
            self.source.exceed(node, f"written out, the expression has more than {self.limits.nodes} nodes")
        if depth > self.limits.nesting:
            self.source.exceed(node, f"the expression is more than {self.limits.nesting} levels deep")
        return e

    def _measure(self, e: Expr) -> tuple[int, int]:
        known = self._sizes.get(id(e))
        if known is None:
            parts = [self._measure(c) for c in children(e)]
            size, depth = 1 + sum(s for s, _ in parts), 1 + max((d for _, d in parts), default=0)
            known = self._sizes[id(e)] = (e, size, depth)
        return known[1:]

    def generate(self, suffix: str, computation: Computation, node: ast.AST) -> str:
        """The name of a stage that computes this: an existing one, or a new one named after the statement."""
        name = self._name_of.get(computation.key)
        if name is None:
            name = self.unique(f"{self._hint}_{suffix}")
            self._add(name, computation, node)
            self._generated.append(name)
        return name

    def define(self, name: str, computation: Computation, node: ast.AST) -> None:
        """The stage ``name``. If a generated stage is all there is to it, that one takes the name over."""
        match computation:
            case (axes, Load(tensor, index), (), None) if tensor in self._generated:
                shape = tuple(a.extent for a in axes)
                if index == tuple(var(a.name) for a in axes) and shape == self.stages[tensor].shape:
                    self._rename(tensor, name)
                    return
            case _:
                pass
        self._add(name, computation, node)

    def _rename(self, old: str, new: str) -> None:
        """Only stages of the current statement can load a stage that it generated."""
        changed = {s: _renamed(self.stages[s], old, new) for s in self._generated}
        self.stages = {s.name: s for s in (changed.get(n, s) for n, s in self.stages.items())}
        del self.tensors[old]
        for stage in changed.values():
            self.tensors[stage.name] = stage.tensor
            self._name_of[_computation(stage).key] = stage.name

    def _add(self, name: str, computation: Computation, node: ast.AST) -> None:
        axes, body, reduce_axes, reducer = computation
        dtype = self._dtype(self.checked(body, node), node)
        self._nodes += self._measure(body)[0]
        if self._nodes > self.limits.total_nodes:
            self.source.exceed(node, f"the program has more than {self.limits.total_nodes} nodes")
        stage = Stage(name, axes, reduce_axes, reducer, body, dtype, dtype)
        self._check_size(stage, node)
        self.stages[name] = stage
        self.tensors[name] = stage.tensor
        self._name_of.setdefault(computation.key, name)

    def _dtype(self, body: Expr, node: ast.AST) -> DType:
        types = {self.tensors[load.tensor].dtype: load.tensor for load in loads(body)}
        if len(types) > 1:
            both = ", ".join(f"{tensor} is {dtype}" for dtype, tensor in types.items())
            self.source.fail(node, f"types are mixed: {both}")
        return next(iter(types), self.inputs[0].dtype)

    def _check_size(self, stage: Stage, node: ast.AST) -> None:
        limits, exceed = self.limits, self.source.exceed
        if len(self.stages) >= limits.stages:
            exceed(node, f"more than {limits.stages} stages")
        if len(stage.axes) > limits.rank:
            exceed(node, f"{stage.name} has more than {limits.rank} dimensions")
        if len(stage.all_axes) > limits.axes:
            exceed(node, f"{stage.name} has more than {limits.axes} axes")
        if any(a.extent > limits.extent for a in stage.all_axes):
            exceed(node, f"an extent may be at most {limits.extent}")
        if math.prod(stage.shape) > limits.elements:
            exceed(node, f"{stage.name} has more than {limits.elements} elements")
        if math.prod(a.extent for a in stage.all_axes) > limits.domain:
            exceed(node, f"{stage.name} computes more than {limits.domain} points")

    def finish(self, name: str, outputs: tuple[str, ...]) -> Program:
        return Program(name, self.inputs, tuple(self.stages.values()), outputs)


def _computation(stage: Stage) -> Computation:
    return Computation(stage.axes, stage.body, stage.reduce_axes, stage.reducer)


def _renamed(stage: Stage, old: str, new: str) -> Stage:
    body = transform_loads(stage.body, lambda load: Load(new, load.index) if load.tensor == old else load)
    name = new if stage.name == old else stage.name
    return Stage(name, stage.axes, stage.reduce_axes, stage.reducer, body, stage.dtype, stage.accumulate)
