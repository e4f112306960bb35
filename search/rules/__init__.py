"""Sketch rules, in the order in which they are tried on a stage."""

from tunesmith.search.rules.base import Hardware, Rule
from tunesmith.search.rules.dots import DotProducts
from tunesmith.search.rules.inline import AlwaysInline
from tunesmith.search.rules.rows import RowGroup
from tunesmith.search.rules.slices import Slices
from tunesmith.search.rules.tiling import MultiLevelTiling

__all__ = [
    "DEFAULT_RULES",
    "AlwaysInline",
    "DotProducts",
    "Hardware",
    "MultiLevelTiling",
    "RowGroup",
    "Rule",
    "Slices",
]

DEFAULT_RULES: tuple[Rule, ...] = (AlwaysInline(), DotProducts(), MultiLevelTiling(), RowGroup())
