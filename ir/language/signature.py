"""Signatures: ``def name(x: f32[128, 768], w: const[f32[768]], s: f32)``."""

import ast

from tunesmith.ir.dtypes import DType
from tunesmith.ir.language.source import Source
from tunesmith.ir.limits import Limits
from tunesmith.ir.program import Tensor

__all__ = ["read_inputs", "read_integer"]

_CONST = "const"
_HUGE = 1 << 63


def read_inputs(function: ast.FunctionDef, source: Source, limits: Limits) -> tuple[Tensor, ...]:
    """The parameters as tensors."""
    _check_plain(function, source)
    args = function.args.args
    if not args:
        source.fail(function, "a program needs at least one input")
    if len(args) > limits.inputs:
        source.exceed(args[limits.inputs], f"more than {limits.inputs} inputs")
    for n, a in enumerate(args):
        if any(a.arg == b.arg for b in args[:n]):
            source.fail(a, f"two inputs are called {a.arg}")
    return tuple(_read_input(a, source, limits) for a in args)


def _check_plain(function: ast.FunctionDef, source: Source) -> None:
    a = function.args
    if getattr(function, "type_params", None):
        source.fail(function, "type parameters are not supported")
    if function.returns is not None:
        source.fail(function.returns, "return annotations are not supported; the result's shape is inferred")
    for star in (a.vararg, a.kwarg):
        if star is not None:
            source.fail(star, "starred parameters are not supported")
    if a.posonlyargs or a.kwonlyargs:
        source.fail((a.posonlyargs + a.kwonlyargs)[0], "only plain parameters are supported")
    if a.defaults:
        source.fail(a.defaults[0], "default values are not supported")


def _read_input(arg: ast.arg, source: Source, limits: Limits) -> Tensor:
    if arg.annotation is None:
        source.fail(arg, f"input {arg.arg} needs a type, such as {arg.arg}: f32[128, 768]")
    kind, const = arg.annotation, False
    if isinstance(kind, ast.Subscript) and isinstance(kind.value, ast.Name) and kind.value.id == _CONST:
        kind, const = kind.slice, True
    dims: list[ast.expr] = []
    if isinstance(kind, ast.Subscript):
        dims = list(kind.slice.elts) if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        kind = kind.value
    dtype = _read_dtype(kind, source)
    if len(dims) > limits.rank:
        source.exceed(dims[limits.rank], f"more than {limits.rank} dimensions")
    tensor = Tensor(arg.arg, tuple(_read_extent(d, source, limits) for d in dims), dtype, const)
    if tensor.size_bytes // dtype.size_bytes > limits.elements:
        source.exceed(arg, f"{arg.arg} has more than {limits.elements} elements")
    return tensor


def _read_dtype(node: ast.expr, source: Source) -> DType:
    known = " and ".join(DType)
    if not isinstance(node, ast.Name):
        source.fail(node, "a type is written f32[128, 768], const[f32[768]] or f32")
    try:
        return DType(node.id)
    except ValueError:
        source.fail(node, f"unknown type {node.id!r}; {known} are supported")


def _read_extent(node: ast.expr, source: Source, limits: Limits) -> int:
    extent = read_integer(node)
    if extent is None:
        source.fail(node, "an extent must be an integer")
    if extent < 1:
        source.fail(node, f"an extent must be at least 1, not {extent}")
    if extent > limits.extent:
        source.exceed(node, f"an extent may be at most {limits.extent}")
    return extent


def read_integer(node: ast.expr) -> int | None:
    """The value of an integer literal with an optional sign, or None. Clamped, so that it can be printed."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)):
            return min(value, _HUGE)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
            positive = read_integer(operand)
            return None if positive is None else -positive
        case _:
            return None
