"""Pieces of program text that several operators share."""

from tunesmith.ir.errors import ProgramError

__all__ = ["ACTIVATIONS", "activated", "operand"]

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")


def operand(kind: str, const: bool) -> str:
    """The type of an operand, declared constant or not."""
    return f"const[{kind}]" if const else kind


def activated(value: str, bias: str | None, act: str | None) -> str:
    """The value, such as ``y[i]``, plus a bias within an activation; either may be None. With neither it is
    the array itself: indexing it would make a stage that only copies."""
    if act is not None and act not in ACTIVATIONS:
        raise ProgramError(f"act must be None or one of {', '.join(ACTIVATIONS)}, not {act!r}")
    if bias is None and act is None:
        return value.partition("[")[0]
    shifted = value if bias is None else f"{value} + {bias}"
    return shifted if act is None else f"{act}({shifted})"
