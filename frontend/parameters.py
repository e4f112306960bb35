"""What an operator's parameters may be, as its signature says."""

import inspect
import math
import types
from typing import Any, get_args

from tunesmith.frontend.operators import OPERATORS
from tunesmith.ir.dtypes import DType
from tunesmith.ir.errors import ProgramError
from tunesmith.ir.limits import DEFAULT_LIMITS

__all__ = ["check_parameters", "usage", "wrong_with"]

_MAY_BE_ZERO = ("pad",)


def usage(name: str) -> str:
    """``matmul(m=512, …)``: the operator with its parameters and their defaults."""
    parameters = inspect.signature(OPERATORS[name]).parameters.values()
    return f"{name}({', '.join(f'{p.name}={p.default!r}' for p in parameters)})"


def check_parameters(name: str, *arguments: object, **keywords: object) -> None:
    """Raises ProgramError for a call that the operator does not take."""
    try:
        bound = inspect.signature(OPERATORS[name]).bind(*arguments, **keywords)
    except TypeError as e:
        raise ProgramError(f"{name}: {e}; its parameters are {usage(name)}") from None
    for key, value in bound.arguments.items():
        wrong = wrong_with(name, key, value)
        if wrong:
            raise ProgramError(f"{name}: {wrong}")


def wrong_with(name: str, key: str, value: Any) -> str:
    """What is wrong with the value of a parameter; empty if nothing is."""
    annotation = inspect.signature(OPERATORS[name]).parameters[key].annotation
    kinds = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    if not any(_is_a(value, kind) for kind in kinds):
        wanted = " or ".join("None" if k is types.NoneType else k.__name__ for k in kinds)
        return f"{key} must be {wanted}; its parameters are {usage(name)}"
    least = int(key not in _MAY_BE_ZERO)
    if type(value) is int and int in kinds and not least <= value <= DEFAULT_LIMITS.extent:
        return f"{key} must be from {least} to {DEFAULT_LIMITS.extent}"
    if float in kinds and not (0 <= value < math.inf):
        return f"{key} must be a finite number from 0"
    if key == "dtype" and value not in tuple(DType):
        return f"dtype must be {' or '.join(DType)}, not {value[:40]!r}"
    return ""


def _is_a(value: Any, kind: Any) -> bool:
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind
