"""Named operators and model files as programs."""

from tunesmith.frontend.calls import operator, operator_text
from tunesmith.frontend.operators import OPERATORS
from tunesmith.frontend.ops import ops

__all__ = ["OPERATORS", "operator", "operator_text", "ops"]
