"""Array form: ``relu(x @ w.T + b)``. Reads the syntax; arrays.py and composites.py hold what it means."""

import ast
from collections.abc import Callable, Sequence

from tunesmith.ir.expr import Const, Expr
from tunesmith.ir.language.arrays import Array, elementwise, load, matmul, permuted, reduce, reshaped, scaled
from tunesmith.ir.language.builder import Builder, Computation
from tunesmith.ir.language.composites import concat, layer_norm, pad, rms_norm, softmax
from tunesmith.ir.language.elementwise import Elementwise
from tunesmith.ir.language.literals import axis_in, integer, integers, number, pairs, truth
from tunesmith.ir.language.scalars import REDUCERS

__all__ = ["ArrayForm"]

_METHODS = ("transpose", "reshape", *REDUCERS)
_FUNCTIONS = ("concat", "layer_norm", "matmul", "pad", "reshape", "rms_norm", "softmax", "transpose")


class ArrayForm(Elementwise[Array]):
    def __init__(self, builder: Builder, tensors_used: set[str]) -> None:
        super().__init__(builder)
        self.used = tensors_used

    def define(self, name: str, right: ast.expr, node: ast.AST) -> None:
        """Add the stage ``name``."""
        value = self.value(right)
        self.builder.define(name, Computation(value.axes, value.expr), node)

    def apply(self, node: ast.AST, f: Callable[..., Expr], *values: Array) -> Array:
        out = elementwise(f, values)
        if out is None:
            self.source.fail(node, f"shapes do not broadcast: {_shapes(values)}")
        return self._checked(node, out)

    def _checked(self, node: ast.AST, a: Array) -> Array:
        self.builder.checked(a.expr, node)
        return a

    def number(self, value: float) -> Array:
        return Array((), Const(value))

    def name(self, node: ast.Name) -> Array:
        tensor = self.builder.tensors.get(node.id)
        if tensor is None:
            self.source.fail(node, f"{node.id} is not defined")
        self.used.add(node.id)
        return load(node.id, tensor.shape)

    def special(self, node: ast.expr) -> Array:
        match node:
            case ast.BinOp(left=a, op=ast.MatMult(), right=b):
                return self._matmul(node, a, b)
            case ast.Attribute(value=a, attr="T"):
                array = self.value(a)
                return permuted(array, range(array.rank)[::-1])
            case ast.Attribute(attr=name):
                self.source.fail(node, f"the attribute .{name} is not supported; arrays have .T")
            case ast.Call(func=ast.Attribute(value=a, attr=name), args=args, keywords=keywords):
                if name not in _METHODS:
                    self.source.fail(node, f"unknown method .{name}; known are {', '.join(_METHODS)}")
                call = ast.copy_location(ast.Call(ast.Name(name), [a, *args], keywords), node)
                return self.call(call, name)
            case _:
                self.unsupported(node)

    def _matmul(self, node: ast.AST, a: ast.expr, b: ast.expr) -> Array:
        left, right = self.value(a), self.value(b)
        out = matmul(left, right, self.builder, node)
        if out is None:
            self.source.fail(node, f"shapes do not fit a matrix product: {_shapes([left, right])}")
        return out

    def where(self, node: ast.Call, cond: ast.expr, a: ast.expr, b: ast.expr) -> Array:
        return self.select(node, cond, a, b)

    def is_reduction(self, node: ast.Call, name: str) -> bool:
        return len(node.args) != 2 or name not in ("max", "min")

    # -- functions that are not elementwise

    def call(self, node: ast.Call, name: str) -> Array:
        if name in REDUCERS:
            return self._reduction(node, name)
        match name:
            case "transpose":
                return self._transpose(node)
            case "reshape":
                return self._reshape(node)
            case "matmul":
                a, b = self._bind(node, name, ("a", "b"), 2)
                assert a is not None and b is not None
                return self._matmul(node, a, b)
            case "softmax":
                return self._softmax(node)
            case "layer_norm" | "rms_norm":
                return self._norm(node, name)
            case "pad":
                return self._pad(node)
            case "concat":
                return self._concat(node)
            case _:
                self.unknown_function(node, name, _FUNCTIONS)

    def _bind(
        self, node: ast.Call, name: str, parameters: tuple[str, ...], required: int
    ) -> list[ast.expr | None]:
        """The arguments in the order of the parameters; None for those left out."""
        if len(node.args) > len(parameters):
            self.source.fail(node, f"{name} takes {', '.join(parameters)}")
        bound: dict[str, ast.expr] = dict(zip(parameters, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in parameters or keyword.arg in bound:
                self.source.fail(keyword, f"{name} takes {', '.join(parameters)}, each once")
            bound[keyword.arg] = keyword.value
        for parameter in parameters[:required]:
            if parameter not in bound:
                self.source.fail(node, f"{name} needs {parameter}")
        return [bound.get(p) for p in parameters]

    def _operand(self, node: ast.expr | None) -> Array:
        assert node is not None, "required arguments are bound"
        return self.value(node)

    def _reduction(self, node: ast.Call, name: str) -> Array:
        if len(node.args) > 1:
            self.source.fail(
                node.args[1], f"write {name}(x, axis=…) to reduce an array, or index it: {name}(x[i, k], k)"
            )
        x, axis, keepdims = self._bind(node, name, ("x", "axis", "keepdims"), 1)
        a = self._operand(x)
        dims = range(a.rank) if axis is None else integers(axis, self.source)
        found = [axis_in(a.rank, d, axis or node, self.source) for d in dims]
        if len(set(found)) != len(found):
            self.source.fail(axis or node, "an axis is named twice")
        if not found:
            self.source.fail(node, f"{name} has nothing to reduce")
        keep = keepdims is not None and truth(keepdims, self.source)
        out = reduce(a, sorted(found), REDUCERS[name], keep, name, self.builder, node)
        count = 1
        for d in found:
            count *= a.shape[d]
        return self._checked(node, scaled(out, 1 / count)) if name == "mean" else out

    def _transpose(self, node: ast.Call) -> Array:
        a, order = self._variadic(node, "transpose")
        if order is None:
            return permuted(a, range(a.rank)[::-1])
        found = [axis_in(a.rank, d, node, self.source) for d in order]
        if sorted(found) != list(range(a.rank)):
            self.source.fail(node, f"transpose needs each of {a.rank} dimensions once, not {tuple(order)}")
        return permuted(a, found)

    def _reshape(self, node: ast.Call) -> Array:
        a, given = self._variadic(node, "reshape")
        if given is None:
            self.source.fail(node, "reshape needs a shape")
        shape = self._complete(node, a.shape, given)
        out = reshaped(a, shape)
        if out is None:
            what = "merges dimensions, which is not affine and not supported"
            self.source.fail(node, f"reshape from {a.shape} to {shape} {what}")
        return self._checked(node, out)

    def _complete(self, node: ast.AST, old: tuple[int, ...], given: Sequence[int]) -> tuple[int, ...]:
        """The new shape with -1 filled in."""
        size, known, open_dims = 1, 1, 0
        for e in old:
            size *= e
        for e in given:
            open_dims += e == -1
            known *= 1 if e == -1 else e
        if any(e < 1 and e != -1 for e in given) or open_dims > 1:
            self.source.fail(node, "a shape has extents of at least 1 and at most one -1")
        if len(given) > self.builder.limits.rank:
            self.source.exceed(node, f"more than {self.builder.limits.rank} dimensions")
        if size % known or (not open_dims and size != known):
            self.source.fail(node, f"{size} elements do not fit shape {tuple(given)}")
        return tuple(size // known if e == -1 else e for e in given)

    def _variadic(self, node: ast.Call, name: str) -> tuple[Array, tuple[int, ...] | None]:
        """``f(x, (1, 0))`` or ``x.f(1, 0)``: the array and the integers, None if there are none."""
        if node.keywords or not node.args:
            self.source.fail(node, f"{name} takes an array and integers")
        a = self.value(node.args[0])
        rest = node.args[1:]
        if not rest:
            return a, None
        if len(rest) == 1:
            return a, integers(rest[0], self.source)
        return a, tuple(integer(r, self.source) for r in rest)

    def _softmax(self, node: ast.Call) -> Array:
        x, axis = self._bind(node, "softmax", ("x", "axis"), 1)
        a = self._operand(x)
        dim = -1 if axis is None else integer(axis, self.source)
        return softmax(a, axis_in(a.rank, dim, node, self.source), self.builder, node)

    def _norm(self, node: ast.Call, name: str) -> Array:
        names = ("x", "gamma", "beta", "eps") if name == "layer_norm" else ("x", "gamma", "eps")
        x, *affine, eps = self._bind(node, name, names, 1)
        a = self._operand(x)
        weights = [None if w is None else self.value(w) for w in affine]
        for w in weights:
            if not a.rank or (w is not None and w.shape != a.shape[-1:]):
                shapes = _shapes([a, w] if w else [a])
                self.source.fail(node, f"{name} is over the last axis: {shapes} do not fit")
        epsilon = 1e-5 if eps is None else number(eps, self.source)
        norm = layer_norm if name == "layer_norm" else rms_norm
        return self._checked(node, norm(a, [w for w in weights if w], epsilon, self.builder, node))

    def _pad(self, node: ast.Call) -> Array:
        x, widths, value = self._bind(node, "pad", ("x", "widths", "value"), 2)
        a = self._operand(x)
        assert widths is not None
        amounts = pairs(widths, self.source)
        if len(amounts) != a.rank:
            self.source.fail(widths, f"pad needs {a.rank} pairs (before, after), not {len(amounts)}")
        if any(n < 0 for pair in amounts for n in pair):
            self.source.fail(widths, "pad cannot take elements away")
        return pad(a, amounts, 0.0 if value is None else number(value, self.source), self.builder, node)

    def _concat(self, node: ast.Call) -> Array:
        parts, axis = self._bind(node, "concat", ("arrays", "axis"), 1)
        if not isinstance(parts, ast.List | ast.Tuple) or not parts.elts:
            self.source.fail(parts or node, "concat takes a list of arrays and an axis")
        arrays = [self.value(p) for p in parts.elts]
        dim = axis_in(arrays[0].rank, 0 if axis is None else integer(axis, self.source), node, self.source)
        shapes = {a.shape[:dim] + a.shape[dim + 1 :] for a in arrays if a.rank > dim}
        if len(shapes) != 1 or len({a.rank for a in arrays}) != 1:
            self.source.fail(node, f"shapes differ in more than axis {dim}: {_shapes(arrays)}")
        return concat(arrays, dim, self.builder, node)


def _shapes(arrays: Sequence[Array]) -> str:
    return ", ".join(str(a.shape) for a in arrays)
