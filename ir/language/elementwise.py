"""What index form and array form have in common: numbers, arithmetic, functions, comparisons."""

import ast
import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

from tunesmith.ir.expr import BinaryOp, Compare, CompareOp, Expr, Select, UnaryOp
from tunesmith.ir.fold import binary, unary
from tunesmith.ir.language.builder import Builder
from tunesmith.ir.language.scalars import BINARY, REDUCERS, UNARY, power

__all__ = ["COMPARE", "Elementwise"]

V = TypeVar("V")

_ARITHMETIC: dict[type[ast.operator], BinaryOp] = {
    ast.Add: BinaryOp.ADD,
    ast.Sub: BinaryOp.SUB,
    ast.Mult: BinaryOp.MUL,
    ast.Div: BinaryOp.DIV,
}

COMPARE: dict[type[ast.cmpop], CompareOp] = {
    ast.Lt: CompareOp.LT,
    ast.LtE: CompareOp.LE,
    ast.Gt: CompareOp.GT,
    ast.GtE: CompareOp.GE,
    ast.Eq: CompareOp.EQ,
    ast.NotEq: CompareOp.NE,
}

_NAMED_NUMBERS = {"inf": float("inf"), "nan": float("nan")}

_OPERATORS: dict[type[ast.AST], str] = {
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.MatMult: "@",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.Not: "not",
    ast.Invert: "~",
}


class Elementwise(ABC, Generic[V]):
    """Lowers a syntax tree to values of type V. A form says what names, subscripts and calls mean to it."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.source = builder.source

    @abstractmethod
    def apply(self, node: ast.AST, f: Callable[..., Expr], *values: V) -> V:
        """``f`` on the elements of the values."""

    @abstractmethod
    def number(self, value: float) -> V: ...

    @abstractmethod
    def name(self, node: ast.Name) -> V: ...

    @abstractmethod
    def special(self, node: ast.expr) -> V:
        """Syntax that only this form has, or a reason why it isn't supported."""

    @abstractmethod
    def call(self, node: ast.Call, name: str) -> V:
        """A function that is not elementwise."""

    @abstractmethod
    def is_reduction(self, node: ast.Call, name: str) -> bool: ...

    @abstractmethod
    def where(self, node: ast.Call, cond: ast.expr, a: ast.expr, b: ast.expr) -> V: ...

    def value(self, node: ast.expr) -> V:
        match node:
            case ast.Constant(value=value):
                return self.number(self._number(node, value))
            case ast.Name(id=name) if name in _NAMED_NUMBERS and name not in self.builder.tensors:
                return self.number(_NAMED_NUMBERS[name])
            case ast.Name():
                return self.name(node)
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return self.apply(node, lambda x: unary(UnaryOp.NEG, x), self.value(a))
            case ast.UnaryOp(op=ast.UAdd(), operand=a):
                return self.value(a)
            case ast.BinOp(left=a, op=operator, right=b) if type(operator) in _ARITHMETIC:
                op = _ARITHMETIC[type(operator)]
                return self.apply(node, lambda x, y: binary(op, x, y), self.value(a), self.value(b))
            case ast.BinOp(left=a, op=ast.Pow(), right=b):
                return self.apply(node, power, self.value(a), self.value(b))
            case ast.Call(func=ast.Name(id=name)):
                return self._function(node, name)
            case ast.Compare():
                self.source.fail(node, "a comparison is only allowed as the condition of where(cond, a, b)")
            case _:
                return self.special(node)

    def _number(self, node: ast.AST, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.source.fail(node, f"{type(value).__name__} values are not supported")
        try:
            return float(value)
        except OverflowError:
            self.source.fail(node, "the number is too large")

    def _function(self, node: ast.Call, name: str) -> V:
        if name in REDUCERS and self.is_reduction(node, name):
            return self.call(node, name)
        if name in UNARY:
            (a,) = self.arguments(node, name, 1)
            return self.apply(node, UNARY[name], self.value(a))
        if name in BINARY:
            a, b = self.arguments(node, name, 2)
            return self.apply(node, BINARY[name], self.value(a), self.value(b))
        if name == "where":
            cond, a, b = self.arguments(node, name, 3)
            return self.where(node, cond, a, b)
        return self.call(node, name)

    def arguments(self, node: ast.Call, name: str, count: int) -> list[ast.expr]:
        if node.keywords:
            self.source.fail(node.keywords[0], f"{name} takes no keyword arguments here")
        if len(node.args) != count:
            self.source.fail(node, f"{name} takes {count} argument{'s' * (count > 1)}, not {len(node.args)}")
        return node.args

    def select(self, node: ast.Call, cond: ast.expr, a: ast.expr, b: ast.expr) -> V:
        """``where`` on a comparison of values."""
        match cond:
            case ast.Compare(left=x, ops=[operator], comparators=[y]) if type(operator) in COMPARE:
                op = COMPARE[type(operator)]
            case _:
                self.source.fail(cond, "the condition of where must be one comparison, such as x > 0")
        values = [self.value(v) for v in (x, y, a, b)]
        return self.apply(node, lambda p, q, r, s: Select(Compare(op, p, q), r, s), *values)

    def unknown_function(self, node: ast.AST, name: str, known: tuple[str, ...]) -> NoReturn:
        names = sorted({*UNARY, *BINARY, *REDUCERS, "where", *known})
        near = difflib.get_close_matches(name[:64], names, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(names)}"
        self.source.fail(node, f"unknown function {name!r}{hint}")

    def unsupported(self, node: ast.expr) -> NoReturn:
        match node:
            case ast.BinOp(op=op) | ast.UnaryOp(op=op):
                what = f"the operator {_OPERATORS.get(type(op), type(op).__name__)}"
            case ast.Call():
                what = "a call of something that is not a plain name"
            case _:
                what = _SYNTAX.get(type(node), type(node).__name__)
        self.source.fail(node, f"{what} is not supported in an expression")


_SYNTAX: dict[type[ast.AST], str] = {
    ast.Lambda: "a lambda",
    ast.IfExp: "a conditional expression (use where)",
    ast.BoolOp: "and/or",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "the walrus operator",
    ast.Attribute: "an attribute",
    ast.Starred: "a starred value",
    ast.Tuple: "a tuple",
    ast.List: "a list",
    ast.Await: "await",
    ast.Yield: "yield",
}
