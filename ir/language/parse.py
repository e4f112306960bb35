"""From text to program: the function, its statements, its outputs."""

import ast

from tunesmith.ir.errors import LimitError, ProgramError
from tunesmith.ir.language.array_form import ArrayForm
from tunesmith.ir.language.builder import Builder
from tunesmith.ir.language.indexed import Indexed
from tunesmith.ir.language.scalars import REDUCERS
from tunesmith.ir.language.signature import read_inputs
from tunesmith.ir.language.source import Source, is_docstring, read_functions
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.program import Program

__all__ = ["parse", "parse_at"]


def parse(text: str, *, name: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Program:
    """The program that a text defines; ``name`` picks one of several definitions.

    Raises ``ProgramError`` with line and column for anything that isn't a valid program, ``LimitError``
    (one of them) for what is too large. Nothing in the text is executed.
    """
    return parse_at(text, name, limits, 0, 0)


def parse_at(text: str, name: str | None, limits: Limits, first_line: int, first_column: int) -> Program:
    """``parse`` for a text that stands at this line and column, from 0, of the user's file."""
    try:
        source, functions = read_functions(text, limits, first_line, first_column)
        return _Function(_chosen(functions, name), source, limits).program()
    except RecursionError:
        raise LimitError("the program is nested too deeply", first_line + 1, first_column + 1) from None


def _chosen(functions: tuple[ast.FunctionDef, ...], name: str | None) -> ast.FunctionDef:
    named = [f for f in functions if name is None or f.name == name]
    if len(named) == 1:
        return named[0]
    defined = ", ".join(f.name for f in functions)
    if not functions:
        raise ProgramError("the text defines no function; write def name(x: f32[8]): return …")
    if name is None:
        raise ProgramError(f"the text defines several functions, choose one by name: {defined}")
    reason = "more than once" if named else f"nowhere; there are {defined}"
    raise ProgramError(f"the text defines {name} {reason}")


class _Function:
    def __init__(self, function: ast.FunctionDef, source: Source, limits: Limits) -> None:
        self.function = function
        self.source = source
        self.inputs = read_inputs(function, source, limits)
        self.used: set[str] = set()
        self.defined: dict[str, ast.AST] = {}  # by assignments
        self.builder = Builder(source, limits, self.inputs, _assigned(function))

    def program(self) -> Program:
        *statements, last = self._body()
        if not isinstance(last, ast.Return) or last.value is None:
            self.source.fail(last, "the last statement must return a value")
        for s in statements:
            self._assign(s)
        outputs = self._outputs(last, last.value)
        self._check_used()
        return self.builder.finish(self.function.name, outputs)

    def _body(self) -> list[ast.stmt]:
        body = self.function.body
        if is_docstring(body[0]):
            body = body[1:]
        if not body:
            self.source.fail(self.function, "the function is empty; its last statement must return a value")
        return body

    def _assign(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                self._new_name(name, target)
                self._define(name, value, target)
            case ast.Assign(targets=[ast.Subscript(ast.Name(id=name) as target, left)], value=value):
                self._new_name(name, target)
                self.builder.begin(name)
                Indexed(self.builder, self.used).define(name, left, value, target)
            case ast.Return():
                self.source.fail(statement, "return must be the last statement")
            case ast.Assign():
                self.source.fail(statement, "an assignment has one target, a name or name[axes]")
            case _:
                what = type(statement).__name__
                self.source.fail(statement, f"only assignments and a return are allowed here, not {what}")

    def _new_name(self, name: str, node: ast.AST) -> None:
        if name in self.builder.tensors:
            what = "assigned twice" if name in self.defined else "an input and cannot be assigned"
            self.source.fail(node, f"{name} is {what}")
        self.defined[name] = node

    def _define(self, name: str, value: ast.expr, node: ast.AST) -> None:
        self.builder.begin(name)
        if _is_index_form(value):
            Indexed(self.builder, self.used).define(name, None, value, node)
        else:
            ArrayForm(self.builder, self.used).define(name, value, node)

    def _outputs(self, node: ast.Return, value: ast.expr) -> tuple[str, ...]:
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        if not values:
            self.source.fail(node, "the function must return at least one value")
        names: list[str] = []
        for n, v in enumerate(values):
            names.append(self._output(v, "out" if len(values) == 1 else f"out{n}"))
            if names[-1] in names[:-1]:
                self.source.fail(v, f"{names[-1]} is returned twice")
        return tuple(names)

    def _output(self, value: ast.expr, hint: str) -> str:
        whole = self._whole_stage(value)
        if whole is not None:
            self.used.add(whole)
            return whole
        name = self.builder.unique(hint)
        self._define(name, value, value)
        return name

    def _whole_stage(self, value: ast.expr) -> str | None:
        """``y``, or ``y[i, j]``, which as an output is all of y whatever its axes are called."""
        match value:
            case ast.Subscript(ast.Name(id=name), ast.Tuple(elts=axes)):
                pass
            case ast.Subscript(ast.Name(id=name), axis):
                axes = [axis]
            case ast.Name(id=name) if name in self.builder.stages:
                return name
            case _:
                return None
        names = {a.id for a in axes if isinstance(a, ast.Name)} - set(self.builder.tensors)
        stage = self.builder.stages.get(name)
        whole = stage is not None and len(names) == len(axes) == len(stage.axes)
        return name if whole else None

    def _check_used(self) -> None:
        for arg in self.function.args.args:
            if arg.arg not in self.used:
                self.source.fail(arg, f"input {arg.arg} is never used")
        for name, node in self.defined.items():
            if name not in self.used:
                self.source.fail(node, f"{name} is never used")


def _assigned(function: ast.FunctionDef) -> set[str]:
    """Every name that the text mentions; generated names keep clear of them."""
    return {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}


def _is_index_form(value: ast.expr) -> bool:
    """Whether a tensor is subscripted or a reduction names its axes."""
    return any(isinstance(n, ast.Subscript) or _names_axes(n) for n in ast.walk(value))


def _names_axes(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[_], keywords=[first, *_]) if name in REDUCERS:
            return first.arg not in ("axis", "keepdims", None)
        case _:
            return False
