"""What is computed: expressions, programs, the expression language, loop nests, the NumPy reference."""

from tunesmith.ir.affine import Affine, Range, constant, interval, var
from tunesmith.ir.dtypes import DType
from tunesmith.ir.errors import LimitError, ProgramError, TunesmithError
from tunesmith.ir.interpreter import NestError, run_nest
from tunesmith.ir.language import parse, program_from_function
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.loopnest import Buffer, LoopNest, format_expr, format_nest
from tunesmith.ir.program import Axis, Program, Stage, Tensor
from tunesmith.ir.reference import evaluate

__all__ = [
    "Affine",
    "Axis",
    "Buffer",
    "DEFAULT_LIMITS",
    "DType",
    "LimitError",
    "Limits",
    "LoopNest",
    "NestError",
    "Program",
    "ProgramError",
    "Range",
    "Stage",
    "Tensor",
    "TunesmithError",
    "constant",
    "evaluate",
    "format_expr",
    "format_nest",
    "interval",
    "parse",
    "program_from_function",
    "run_nest",
    "var",
]
