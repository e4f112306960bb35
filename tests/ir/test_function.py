"""Programs from Python functions: read, never called."""

# The functions below are programs, not Python: what they name is not defined here.
# ruff: noqa: F821

from collections.abc import Callable
from typing import Any

import pytest

from tunesmith.ir import Program, ProgramError, parse, program_from_function, workload_hash


def kernel(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Program]:
    return program_from_function


class _Type:
    def __getitem__(self, shape: Any) -> "_Type":
        return self


f32 = _Type()


def test_decorated_functions() -> None:
    @kernel(
        threads=4,
    )
    # A comment between decorator and function.
    def product(a: f32[4, 6], b: f32[6, 5]):  # type: ignore[no-untyped-def, valid-type]
        """A product."""
        c[i, j] = sum(a[i, k] * b[k, j], k)
        return c

    text = "def f(a: f32[4, 6], b: f32[6, 5]):\n    return a @ b"
    assert product.name == "product"
    assert workload_hash(product) == workload_hash(parse(text))


def broken(a: f32[4]):  # type: ignore[no-untyped-def, valid-type]
    y = a * 2
    return y + oops


def test_errors_name_the_lines_of_the_file() -> None:
    with pytest.raises(ProgramError, match="oops is not defined") as caught:
        program_from_function(broken)
    assert caught.value.line == broken.__code__.co_firstlineno + 2
    assert caught.value.column == 16


def test_columns_count_the_indentation() -> None:
    def inner(a: f32[4]):  # type: ignore[no-untyped-def, valid-type]
        return oops

    with pytest.raises(ProgramError) as caught:
        program_from_function(inner)
    assert caught.value.line == inner.__code__.co_firstlineno + 1
    assert caught.value.column == 16


def test_functions_without_source() -> None:
    with pytest.raises(ProgramError, match="cannot be read"):
        program_from_function(len)
