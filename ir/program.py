"""Programs: what is to be computed.

    Program = name, inputs: Tensor…, stages: Stage… (topological order), outputs: tensor name…
    Tensor  = name, shape, dtype, const?                 const: known before the run (weights)
    Stage   = name, axes: Axis…, reduce_axes: Axis…, reducer?, body: Expr, dtype, accumulate
    Axis    = name, extent >= 1

A stage computes ``name[axes] = reducer over reduce_axes of body``; its shape is the extents of its axes.
Indices of loads in the body are affine in the stage's axes. Axis names are unique within a stage,
tensor and stage names within a program.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from tunesmith.ir.affine import Affine
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Const, Expr, Reducer, Within, loads

__all__ = ["Axis", "Program", "Stage", "Tensor"]


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    extent: int


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: DType
    const: bool = False

    @property
    def size_bytes(self) -> int:
        size = self.dtype.size_bytes
        for n in self.shape:
            size *= n
        return size


@dataclass(frozen=True)
class Stage:
    """``dtype`` is the storage type of the result, ``accumulate`` the type of the running reduction."""

    name: str
    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    reducer: Reducer | None
    body: Expr
    dtype: DType
    accumulate: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(a.extent for a in self.axes)

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        return self.axes + self.reduce_axes

    @property
    def tensor(self) -> Tensor:
        return Tensor(self.name, self.shape, self.dtype)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names of the tensors it loads, each once, in order of appearance."""
        return tuple(dict.fromkeys(load.tensor for load in loads(self.body)))

    @property
    def terms(self) -> tuple[tuple[Affine, ...], Expr]:
        """Of a reduction: the conditions under which there is a term at all, and the term."""
        conds: tuple[Affine, ...] = ()
        body = self.body
        while isinstance(body, Within) and self.reducer and body.b == Const(self.reducer.identity):
            conds, body = conds + body.conds, body.a
        return conds, body


@dataclass(frozen=True)
class Program:
    name: str
    inputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Inputs and stage results by name."""
        return {t.name: t for t in self.inputs} | {s.name: s.tensor for s in self.stages}

    @cached_property
    def stage_by_name(self) -> dict[str, Stage]:
        return {s.name: s for s in self.stages}

    def stage(self, name: str) -> Stage:
        return self.stage_by_name[name]

    def consumers(self, name: str) -> tuple[Stage, ...]:
        """Stages that read a tensor, in order."""
        return self._consumers.get(name, ())

    @cached_property
    def _consumers(self) -> dict[str, tuple[Stage, ...]]:
        found: dict[str, list[Stage]] = {}
        for stage in self.stages:
            for name in stage.reads:
                found.setdefault(name, []).append(stage)
        return {name: tuple(stages) for name, stages in found.items()}

    def with_stages(self, stages: tuple[Stage, ...]) -> "Program":
        return replace(self, stages=stages)
