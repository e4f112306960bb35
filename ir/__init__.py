"""What is computed: expressions, programs, the expression language, loop nests, the NumPy reference."""

from tunesmith.ir.affine import Affine, Range, constant, interval, var
from tunesmith.ir.canonical import anatomy, canonical, extents, structure_hash, workload_hash
from tunesmith.ir.cost import dominant_dtype, flops, min_bytes, stage_flops
from tunesmith.ir.dtypes import DType
from tunesmith.ir.errors import LimitError, ProgramError, TunesmithError
from tunesmith.ir.interpreter import NestError, run_nest
from tunesmith.ir.language import parse, program_from_function
from tunesmith.ir.limits import DEFAULT_LIMITS, Limits
from tunesmith.ir.loopnest import Buffer, LoopNest, format_expr, format_nest
from tunesmith.ir.padding import needed_flops, without_padding
from tunesmith.ir.printing import format_program
from tunesmith.ir.program import Axis, Program, Stage, Tensor
from tunesmith.ir.reference import evaluate
from tunesmith.ir.serial import PROGRAM_VERSION, program_from_json, program_to_json
from tunesmith.ir.verify import verify_program

__all__ = [
    "anatomy",
    "canonical",
    "constant",
    "dominant_dtype",
    "evaluate",
    "extents",
    "flops",
    "format_expr",
    "format_nest",
    "format_program",
    "interval",
    "min_bytes",
    "needed_flops",
    "parse",
    "program_from_function",
    "program_from_json",
    "program_to_json",
    "run_nest",
    "stage_flops",
    "structure_hash",
    "var",
    "verify_program",
    "without_padding",
    "workload_hash",
    "Affine",
    "Axis",
    "Buffer",
    "DEFAULT_LIMITS",
    "DType",
    "LimitError",
    "Limits",
    "LoopNest",
    "NestError",
    "PROGRAM_VERSION",
    "Program",
    "ProgramError",
    "Range",
    "Stage",
    "Tensor",
    "TunesmithError",
]
