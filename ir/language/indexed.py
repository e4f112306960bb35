"""Index form: ``y[i, o] = sum(x[i, k] * w[o, k], k)``."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunesmith.ir.affine import Affine, var
from tunesmith.ir.bounds import negation, protect
from tunesmith.ir.expr import Const, Expr, Load, Reducer, Within, substitute, transform_loads, walk
from tunesmith.ir.language.builder import Builder, Computation
from tunesmith.ir.language.elementwise import Elementwise
from tunesmith.ir.language.extents import Access, Dimension, check_ranges, infer_extents, plain
from tunesmith.ir.language.indices import is_index_condition, read_conditions, read_index
from tunesmith.ir.language.scalars import REDUCERS, mean_scale
from tunesmith.ir.language.signature import read_integer
from tunesmith.ir.program import Axis

__all__ = ["Indexed"]

_ARRAY_FUNCTIONS = ("softmax", "layer_norm", "rms_norm", "pad", "concat", "reshape", "transpose")


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A reduction within a statement. Until extents are known, ``#n`` stands for its value."""

    axes: tuple[str, ...]
    reduce_axes: tuple[str, ...]
    name: str
    body: Expr
    node: ast.AST


class Indexed(Elementwise[Expr]):
    """Reads one statement. Reduce axes get internal names of their own (``k#1``) while it is read, since
    two reductions of a statement may call theirs the same and differ in extent."""

    def __init__(self, builder: Builder, tensors_used: set[str]) -> None:
        super().__init__(builder)
        self.used = tensors_used
        self.scope: dict[str, str] = {}
        self.free: dict[str, ast.AST] = {}  # spatial axes in order of appearance
        self.first: dict[str, ast.AST] = {}  # every axis, by internal name
        self.given: dict[str, int] = {}
        self.accesses: list[Access] = []
        self.reductions: list[_Reduction] = []
        self.guards: tuple[Affine, ...] = ()
        self.partial: frozenset[str] = frozenset()
        self.closed = False  # the axes on the left are all there are

    # -- statements

    def define(self, name: str, left: ast.expr | None, right: ast.expr, node: ast.AST) -> None:
        """Add the stage ``name``; ``left`` is the index on the left, None for axes in order of appearance."""
        if left is not None:
            self._declare_left(left)
        body = self.value(right)
        extents = infer_extents(self.accesses, self.given, self.first, self.source)
        check_ranges(self.accesses, extents, self.source)
        _Finish(self, extents).stages(name, tuple(self.free), body, node)

    def _declare_left(self, left: ast.expr) -> None:
        for item in left.elts if isinstance(left, ast.Tuple) else [left]:
            match item:
                case ast.Name():
                    self._declare_spatial(item)
                case ast.Slice(lower=ast.Name() as axis, upper=ast.expr() as upper, step=None):
                    self.given[self._declare_spatial(axis)] = self._extent(upper)
                case _:
                    self.source.fail(item, "an axis on the left is a name such as i, or i:8 with its extent")
        self.closed = True

    def _declare_spatial(self, node: ast.Name) -> str:
        if node.id in self.builder.tensors or node.id in ("inf", "nan"):
            what = "tensor" if node.id in self.builder.tensors else "number"
            self.source.fail(node, f"{node.id} is a {what} and cannot be an axis as well")
        if node.id in self.scope:
            self.source.fail(node, f"axis {node.id} appears twice")
        if any(plain(n) == node.id for n in self.first):
            self.source.fail(node, f"{node.id} is reduced over in this statement; use another name here")
        if len(self.free) >= self.builder.limits.rank:
            self.source.exceed(node, f"more than {self.builder.limits.rank} axes besides the reduced ones")
        self.scope[node.id] = node.id
        self.free[node.id] = self.first[node.id] = node
        return node.id

    def _extent(self, node: ast.expr) -> int:
        extent = read_integer(node)
        if extent is None or extent < 1:
            self.source.fail(node, "an extent must be an integer of at least 1")
        if extent > self.builder.limits.extent:
            self.source.exceed(node, f"an extent may be at most {self.builder.limits.extent}")
        return extent

    # -- values

    def apply(self, node: ast.AST, f: Callable[..., Expr], *values: Expr) -> Expr:
        return self.builder.checked(f(*values), node)

    def number(self, value: float) -> Expr:
        return Const(value)

    def name(self, node: ast.Name) -> Expr:
        tensor = self.builder.tensors.get(node.id)
        if tensor is None:
            if node.id in self.scope:
                self.source.fail(node, f"axis {node.id} cannot be used as a value")
            self.source.fail(node, f"{node.id} is not defined")
        if tensor.shape:
            axes = ", ".join("ijklmnop"[: len(tensor.shape)])
            self.source.fail(
                node, f"{node.id} has {len(tensor.shape)} dimensions; index it, as in {node.id}[{axes}]"
            )
        self.used.add(node.id)
        return Load(node.id, ())

    def special(self, node: ast.expr) -> Expr:
        match node:
            case ast.Subscript(value=ast.Name() as base, slice=index):
                return self._load(node, base, index.elts if isinstance(index, ast.Tuple) else [index])
            case ast.Subscript():
                self.source.fail(node.value, "only a tensor can be indexed; assign the array to a name first")
            case ast.BinOp(op=ast.MatMult()):
                self.source.fail(node, "@ is array form; in index form write sum(a[i, k] * b[k, j], k)")
            case _:
                self.unsupported(node)

    def _load(self, node: ast.AST, base: ast.Name, index: Sequence[ast.expr]) -> Expr:
        tensor = self.builder.tensors.get(base.id)
        if tensor is None:
            self.source.fail(base, f"{base.id} is not defined")
        if len(index) != len(tensor.shape):
            self.source.fail(node, f"{base.id} has {len(tensor.shape)} dimensions, not {len(index)}")
        self.used.add(base.id)
        affine = [read_index(i, self._axis, self.source) for i in index]
        dims = tuple(
            Dimension(a, extent, number, i)
            for number, (a, i, extent) in enumerate(zip(affine, index, tensor.shape, strict=True))
        )
        self.accesses.append(Access(base.id, dims, self.guards, self.partial))
        return Load(base.id, tuple(affine))

    def _axis(self, node: ast.Name) -> Affine:
        if node.id in self.builder.tensors:
            self.source.fail(node, f"{node.id} is a tensor; an index that depends on data is not supported")
        if node.id not in self.scope:
            if self.closed:
                self.source.fail(node, f"axis {node.id} is neither on the left nor reduced over")
            self._declare_spatial(node)
        return var(self.scope[node.id])

    def where(self, node: ast.Call, cond: ast.expr, a: ast.expr, b: ast.expr) -> Expr:
        if not is_index_condition(cond, self.builder.tensors):
            return self.select(node, cond, a, b)
        conds = read_conditions(cond, self._axis, self.source)
        other = (negation(conds[0]),) if len(conds) == 1 else ()
        limited = frozenset(n for c in conds for n in c.names)
        inside = self._guarded(a, conds, self.partial | limited)
        outside = self._guarded(b, other, self.partial)
        return self.apply(node, lambda x, y: Within(conds, x, y), inside, outside)

    def _guarded(self, node: ast.expr, conds: tuple[Affine, ...], partial: frozenset[str]) -> Expr:
        before = self.guards, self.partial
        self.guards, self.partial = self.guards + conds, partial
        if len(self.guards) > self.builder.limits.conditions:
            limit = self.builder.limits.conditions
            self.source.exceed(node, f"more than {limit} conditions on indices around an expression")
        value = self.value(node)
        self.guards, self.partial = before
        return value

    # -- reductions

    def is_reduction(self, node: ast.Call, name: str) -> bool:
        """Two arguments of max are values unless the second is a new name or a tuple of names."""
        if len(node.args) != 2 or name not in ("max", "min"):
            return True
        axes = node.args[1]
        if not isinstance(axes, ast.Name):
            return isinstance(axes, ast.Tuple)
        return axes.id not in self.builder.tensors and axes.id not in ("inf", "nan")

    def call(self, node: ast.Call, name: str) -> Expr:
        if name in REDUCERS:
            return self._reduction(node, name)
        if name in _ARRAY_FUNCTIONS:
            self.source.fail(node, f"{name} is array form; assign its result to a name, then index that")
        self.unknown_function(node, name, ())

    def _reduction(self, node: ast.Call, name: str) -> Expr:
        axes = self._reduce_axes(node, name)
        saved = self.scope, self.guards, self.partial
        # The reduction is computed for all points of its axes, whatever guards the use of its value.
        self.scope, self.guards, self.partial = {**self.scope, **axes}, (), frozenset()
        body = self.value(node.args[0])
        declared = {n: n for n in self.free}
        self.scope, self.guards, self.partial = {**declared, **saved[0]}, *saved[1:]
        return self._placeholder(node, name, tuple(axes.values()), body)

    def _placeholder(self, node: ast.Call, name: str, reduce_axes: tuple[str, ...], body: Expr) -> Expr:
        used = _axes_of(body)
        for axis in reduce_axes:
            if axis not in used:
                self.source.fail(node, f"reduce axis {plain(axis)} does not occur in what {name} reduces")
        axes = tuple(n for n in used if n not in reduce_axes)
        self.reductions.append(_Reduction(axes, reduce_axes, name, body, node))
        return self.builder.checked(Load(f"#{len(self.reductions) - 1}", tuple(var(n) for n in axes)), node)

    def _reduce_axes(self, node: ast.Call, name: str) -> dict[str, str]:
        if len(node.args) not in (1, 2) or not (len(node.args) == 2 or node.keywords):
            self.source.fail(node, f"{name} takes a value and its reduce axes, as in {name}(x[i, k], k)")
        axes: dict[str, str] = {}
        for item in _items(node.args[1]) if len(node.args) == 2 else []:
            if not isinstance(item, ast.Name):
                self.source.fail(item, "a reduce axis must be a name")
            self._declare_reduce(item.id, item, axes)
        for keyword in node.keywords:
            self._declare_keyword(keyword, axes)
        if not axes:
            self.source.fail(node, f"{name} needs at least one reduce axis")
        return axes

    def _declare_keyword(self, keyword: ast.keyword, axes: dict[str, str]) -> None:
        if keyword.arg is None:
            self.source.fail(keyword, "** is not supported")
        if keyword.arg in ("axis", "keepdims"):
            self.source.fail(keyword, f"{keyword.arg}= is array form; in index form name the reduce axes")
        if keyword.arg not in axes:
            self._declare_reduce(keyword.arg, keyword, axes)
        self.given[axes[keyword.arg]] = self._extent(keyword.value)

    def _declare_reduce(self, name: str, node: ast.AST, axes: dict[str, str]) -> None:
        if name in self.builder.tensors or name in ("inf", "nan"):
            what = "tensor" if name in self.builder.tensors else "number"
            self.source.fail(node, f"{name} is a {what} and cannot be a reduce axis as well")
        if name in self.scope or name in axes:
            self.source.fail(node, f"{name} is an axis here already; reduce over another name")
        if len(self.first) - len(self.free) >= self.builder.limits.reductions:
            limit = self.builder.limits.reductions
            self.source.exceed(node, f"more than {limit} reduce axes in one statement")
        axes[name] = f"{name}#{len(self.first)}"
        self.first[axes[name]] = node


@dataclass(frozen=True, slots=True)
class _Finish:
    """Turns a statement whose extents are known into stages."""

    statement: Indexed
    extents: dict[str, int]

    def stages(self, name: str, axes: tuple[str, ...], body: Expr, node: ast.AST) -> None:
        reductions = self.statement.reductions
        values: list[Expr] = []
        for n, r in enumerate(reductions):
            if r.name != "mean" and _is_whole(body, n) and set(r.axes) == set(axes):
                self.statement.builder.define(name, self._computation(axes, r, values), r.node)
                return
            values.append(self._generate(r, values))
        body = self._resolve(body, values, axes)
        self.statement.builder.define(name, Computation(self._axes(axes), body), node)

    def _generate(self, r: _Reduction, values: list[Expr]) -> Expr:
        builder = self.statement.builder
        # In the order of the axes of the result, so that the consumer reads it as it writes.
        order = list(dict.fromkeys([*self.statement.free, *self.statement.first]))
        axes = tuple(sorted(r.axes, key=order.index))
        name = builder.generate(r.name, self._computation(axes, r, values), r.node)
        load = Load(name, tuple(var(n) for n in axes))
        if r.name != "mean":
            return load
        count = 1
        for n in r.reduce_axes:
            count *= self.extents[n]
        return mean_scale(load, count)

    def _computation(self, axes: tuple[str, ...], r: _Reduction, values: list[Expr]) -> Computation:
        body = self._resolve(r.body, values, axes + r.reduce_axes)
        reducer: Reducer = REDUCERS[r.name]
        return Computation(self._axes(axes), body, self._axes(r.reduce_axes), reducer)

    def _axes(self, names: tuple[str, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(plain(n), self.extents[n]) for n in names)

    def _resolve(self, body: Expr, values: list[Expr], axes: tuple[str, ...]) -> Expr:
        """Put the values of reductions in, guard what needs it, and give the axes the user's names."""
        body = transform_loads(body, lambda load: _value(load, values))
        shapes = {n: t.shape for n, t in self.statement.builder.tensors.items()}
        ranges = {n: (0, e - 1) for n, e in self.extents.items()}
        body = protect(body, ranges, shapes)
        return substitute(body, {n: var(plain(n)) for n in axes})


def _is_whole(body: Expr, n: int) -> bool:
    return isinstance(body, Load) and body.tensor == f"#{n}"


def _value(load: Load, values: list[Expr]) -> Expr:
    return values[int(load.tensor[1:])] if load.tensor.startswith("#") else load


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _axes_of(body: Expr) -> tuple[str, ...]:
    """Axes in order of appearance."""
    names: dict[str, None] = {}
    for e in walk(body):
        match e:
            case Load(_, index):
                names |= dict.fromkeys(n for i in index for n in i.names)
            case Within(conds, _, _):
                names |= dict.fromkeys(n for c in conds for n in c.names)
            case _:
                pass
    return tuple(names)
