"""The named operators as functions that return programs: ``ops.matmul(512, 512, 512)``."""

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace

from tunesmith.frontend.operators import OPERATORS
from tunesmith.frontend.parameters import check_parameters
from tunesmith.ir.language import parse
from tunesmith.ir.program import Program

__all__ = ["ops"]


def _program_of(text: Callable[..., str]) -> Callable[..., Program]:
    @wraps(text)
    def build(*arguments: object, **keywords: object) -> Program:
        check_parameters(text.__name__, *arguments, **keywords)
        return parse(text(*arguments, **keywords))

    return build


ops = SimpleNamespace(**{name: _program_of(text) for name, text in OPERATORS.items()})
"""One function an operator; they take its parameters and raise ProgramError for what is not valid."""
