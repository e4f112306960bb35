"""How a window moves over the spatial dimensions of an image, as text."""

from dataclasses import dataclass

from tunesmith.ir.errors import ProgramError

__all__ = ["Window", "times"]

_SPATIAL = ("h", "v", "u")  # axis names of output positions and window positions
_WINDOW = ("r", "s", "t")


@dataclass(frozen=True, slots=True)
class Window:
    """A window of size k over the spatial dimensions of x. Raises ProgramError when it does not fit."""

    sizes: tuple[int, ...]
    k: int
    stride: int = 1
    pad: int = 0
    dilation: int = 1

    def __post_init__(self) -> None:
        reach = self.dilation * (self.k - 1) + 1
        if min(self.sizes) + 2 * self.pad < reach:
            raise ProgramError(f"a window of {reach} does not fit in {min(self.sizes)} padded by {self.pad}")

    @property
    def axes(self) -> str:
        return ", ".join(_SPATIAL[: len(self.sizes)])

    @property
    def reduce_axes(self) -> str:
        return ", ".join(_WINDOW[: len(self.sizes)])

    @property
    def index(self) -> str:
        """Where the window reads, in terms of both."""
        pairs = list(zip(_SPATIAL, _WINDOW, strict=True))[: len(self.sizes)]
        return ", ".join(f"{times(self.stride, h)} + {times(self.dilation, r)}" for h, r in pairs)

    @property
    def outputs(self) -> tuple[int, ...]:
        reach = self.dilation * (self.k - 1) + 1
        return tuple((n + 2 * self.pad - reach) // self.stride + 1 for n in self.sizes)

    def padded(self, before: int = 1, after: int = 1, value: str = "0") -> tuple[str, str]:
        """The statement that pads the spatial dimensions, which have others before and after them, and the
        name of what the window reads: x itself without padding."""
        if not self.pad:
            return "", "x"
        whole, each = "(0, 0)", f"({self.pad}, {self.pad})"
        widths = ", ".join([whole] * before + [each] * len(self.sizes) + [whole] * after)
        fill = "" if value == "0" else f", value={value}"
        return f"    p = pad(x, ({widths}){fill})\n", "p"


def times(factor: int, name: str) -> str:
    return name if factor == 1 else f"{factor}*{name}"
