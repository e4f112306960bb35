"""Values of a population: an array with one number a candidate, or a plain number that all of them share.

Most extents and strides of a sketch do not depend on its knobs. They stay numbers, and what is made of them
alone costs nothing a candidate.
"""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flag", "Value", "ceil", "floor", "largest", "most", "least", "product", "size", "total", "where"]

Value: TypeAlias = NDArray[np.float64] | float
Flag: TypeAlias = NDArray[np.bool_] | bool


def least(a: Value, b: Value) -> Value:
    """The smaller of two values, candidate by candidate."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        out: NDArray[np.float64] = np.minimum(a, b)
        return out
    return a if a < b else b


def most(a: Value, b: Value) -> Value:
    """The larger of two values, candidate by candidate."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        out: NDArray[np.float64] = np.maximum(a, b)
        return out
    return a if a > b else b


def size(a: Value) -> Value:
    """The number without its sign."""
    return np.abs(a) if isinstance(a, np.ndarray) else abs(a)


def ceil(a: Value) -> Value:
    return np.ceil(a) if isinstance(a, np.ndarray) else float(math.ceil(a))


def floor(a: Value) -> Value:
    return np.floor(a) if isinstance(a, np.ndarray) else float(math.floor(a))


def where(condition: Flag | Any, a: Value, b: Value) -> Value:
    if isinstance(condition, np.ndarray):
        out: NDArray[np.float64] = np.where(condition, a, b)
        return out
    return a if condition else b


def product(values: Iterable[Value]) -> Value:
    """The product, plain numbers first; 1 of none."""
    number, array = 1.0, None
    for v in values:
        if isinstance(v, np.ndarray):
            array = v if array is None else array * v
        else:
            number *= v
    if array is None:
        return number
    return array if number == 1.0 else array * number


def total(values: Iterable[Value]) -> Value:
    """The sum, plain numbers first; 0 of none."""
    number, array = 0.0, None
    for v in values:
        if isinstance(v, np.ndarray):
            array = v if array is None else array + v
        else:
            number += v
    if array is None:
        return number
    return array if number == 0.0 else array + number


def largest(values: Iterable[Value]) -> Value:
    """The largest, candidate by candidate; 0 of none."""
    out: Value = 0.0
    for v in values:
        out = most(out, v)
    return out
