"""Programs from strangers: read, and held against the service's limits before anything is done with them."""

from typing import Any

from tunesmith.ir import LimitError, Program, ProgramError, flops
from tunesmith.records import Workload
from tunesmith.service.settings import Limits
from tunesmith.service.tools import Tools
from tunesmith.tuning import workload_of

__all__ = ["check_size", "read_program", "read_workload"]


def read_workload(tools: Tools, limits: Limits, source: dict[str, Any]) -> Workload:
    """The workload of ``{"program": text}`` or ``{"operator": text}``. Raises ``ProgramError``."""
    workload, _ = workload_of(read_program(tools, limits, source))
    return workload


def read_program(tools: Tools, limits: Limits, source: dict[str, Any]) -> Program:
    """The program of ``{"program": text}`` or ``{"operator": text}``. Raises ``ProgramError``."""
    try:
        size = max(len(text.encode()) for text in source.values())
    except UnicodeEncodeError:
        raise ProgramError("the text holds half a character (a lone surrogate)") from None
    if size > limits.text_bytes:
        raise LimitError(f"the text has {size} bytes; at most {limits.text_bytes} are accepted")
    program = tools.program(source)
    check_size(program, limits)
    return program


def check_size(program: Program, limits: Limits) -> None:
    """Raises ``LimitError`` for what would take the machine's memory, or days."""
    work = flops(program)
    if work > limits.program_flops:
        raise LimitError(
            f"the program takes {work:.3g} operations; at most {limits.program_flops:.3g} are tuned"
        )
    size = sum(tensor.size_bytes for tensor in program.tensors.values())
    if size > limits.program_bytes:
        raise LimitError(
            f"its tensors take {size:.3g} bytes; at most {limits.program_bytes:.3g} are accepted"
        )
