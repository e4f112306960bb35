"""Pieces of program text that several operators share."""

from dataclasses import dataclass

from tunesmith.ir.errors import ProgramError

__all__ = ["ACTIVATIONS", "Epilogue", "operand", "shape"]

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")


def operand(kind: str, const: bool) -> str:
    """The type of an operand, declared constant or not."""
    return f"const[{kind}]" if const else kind


def shape(dtype: str, *extents: int) -> str:
    return f"{dtype}[{', '.join(map(str, extents))}]"


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is done to each element of a result ``value``, such as ``y[i, o]``:
    ``act(y[i, o] + b[o] + res[i, o])``, each part left out if not asked for. ``channel`` are the axes of the
    bias, ``shift`` its name.
    """

    value: str
    channel: str
    bias: bool = False
    residual: bool = False
    act: str | None = None
    shift: str = "b"

    def __post_init__(self) -> None:
        if self.act is not None and self.act not in ACTIVATIONS:
            raise ProgramError(f"act must be None or one of {', '.join(ACTIVATIONS)}, not {self.act!r}")

    def inputs(self, bias: str, residual: str, const: bool) -> str:
        """Declarations of its operands behind others, given their types."""
        first = f", {self.shift}: {operand(bias, const)}" if self.bias else ""
        return first + (f", res: {residual}" if self.residual else "")

    @property
    def text(self) -> str:
        """Where nothing is done, the array itself: indexing it would make a stage that only copies."""
        name, _, index = self.value.partition("[")
        parts = [self.value]
        parts += [f"{self.shift}[{self.channel}]"] if self.bias else []
        parts += [f"res[{index}"] if self.residual else []
        if len(parts) == 1 and self.act is None:
            return name
        total = " + ".join(parts)
        return total if self.act is None else f"{self.act}({total})"
