"""Whether a program can be measured on this machine at all: asked before any search."""

from math import prod

from tunesmith.ir import Program, TunesmithError
from tunesmith.ir.program import Tensor
from tunesmith.measure.hardware import memory_total

__all__ = ["check_memory", "least_memory_bytes"]

_COPIES = 3  # of inputs and outputs: as they are made, at a guard page to verify, in place to time
_REFERENCE_BYTES = 8  # an element of the reference
_GIB = 1 << 30


def least_memory_bytes(program: Program) -> int:
    """What verifying and timing need at least: copies of inputs and outputs, and the float64 reference.
    Intermediate results of the program come on top."""
    outputs = [program.tensors[name] for name in program.outputs]
    return sum(_bytes(t) for t in (*program.inputs, *outputs))


def _bytes(tensor: Tensor) -> int:
    return prod(tensor.shape) * (_COPIES * tensor.dtype.size_bytes + _REFERENCE_BYTES)


def check_memory(program: Program) -> None:
    """Raises TunesmithError for tensors that this machine cannot hold as often as measuring needs them."""
    need, total = least_memory_bytes(program), memory_total()
    if need > total:
        largest = max((*program.inputs, *(program.tensors[n] for n in program.outputs)), key=_bytes)
        raise TunesmithError(
            f"{program.name} is too large for this machine: its tensors and their reference take at least "
            f"{need / _GIB:.1f} GiB while it is measured, there are {total / _GIB:.1f} GiB; the largest is "
            f"{largest.name}, {largest.dtype}{list(largest.shape)}"
        )
