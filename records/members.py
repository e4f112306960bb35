"""The members of a dataclass by name."""

from dataclasses import fields
from functools import cache
from typing import Any

__all__ = ["members"]


def members(value: object) -> dict[str, Any]:
    """As ``dataclasses.asdict`` of one that holds plain values only, in a tenth of the time: those are not
    copied."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
