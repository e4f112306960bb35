"""Convolutions and pools as text. Channels come last: x[n, h, w, ci], weights [k, k, ci, co]."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunesmith.frontend.text import activated, operand
from tunesmith.ir.errors import ProgramError

__all__ = [
    "avg_pool2d",
    "conv1d",
    "conv2d",
    "conv3d",
    "depthwise_conv2d",
    "group_conv2d",
    "max_pool2d",
]

_SPATIAL = ("h", "v", "u")  # axis names of output positions and window positions
_WINDOW = ("r", "s", "t")


@dataclass(frozen=True, slots=True)
class _Window:
    """How a window of size k moves over the spatial dimensions of x."""

    sizes: tuple[int, ...]
    k: int
    stride: int
    pad: int
    dilation: int

    def check(self) -> None:
        reach = self.dilation * (self.k - 1) + 1
        if min(self.sizes) + 2 * self.pad < reach:
            raise ProgramError(f"a window of {reach} does not fit in {min(self.sizes)} padded by {self.pad}")

    @property
    def axes(self) -> tuple[str, ...]:
        return _SPATIAL[: len(self.sizes)]

    @property
    def reduce_axes(self) -> tuple[str, ...]:
        return _WINDOW[: len(self.sizes)]

    @property
    def index(self) -> str:
        pairs = zip(self.axes, self.reduce_axes, strict=True)
        return ", ".join(f"{_times(self.stride, h)} + {_times(self.dilation, r)}" for h, r in pairs)

    def padded(self, value: str = "") -> tuple[str, str]:
        """The statement that pads x, if any, and the name of what the window reads."""
        if not self.pad:
            return "", "x"
        inner = ", ".join([f"({self.pad}, {self.pad})"] * len(self.sizes))
        return f"    p = pad(x, ((0, 0), {inner}, (0, 0)){value})\n", "p"


def _times(factor: int, name: str) -> str:
    return name if factor == 1 else f"{factor}*{name}"


def _shape(dtype: str, *extents: int) -> str:
    return f"{dtype}[{', '.join(map(str, extents))}]"


def _convolution(
    name: str, w: _Window, n: int, ci: int, co: int, bias: bool, act: str | None, const: bool, dtype: str
) -> str:
    w.check()
    weights = operand(_shape(dtype, *[w.k] * len(w.sizes), ci, co), const)
    shift = f", b: {operand(_shape(dtype, co), const)}" if bias else ""
    pad, source = w.padded()
    out = f"y[n, {', '.join(w.axes)}, o]"
    window = ", ".join(w.reduce_axes)
    return (
        f"def {name}(x: {_shape(dtype, n, *w.sizes, ci)}, w: {weights}{shift}):\n{pad}"
        f"    {out} = sum({source}[n, {w.index}, c] * w[{window}, c, o], ({window}, c))\n"
        f"    return {activated(out, 'b[o]' if bias else None, act)}\n"
    )


def conv1d(
    n: int = 1,
    l: int = 256,  # noqa: E741
    ci: int = 64,
    co: int = 128,
    k: int = 3,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    bias: bool = False,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """x[n, l, ci] with weights [k, ci, co] and bias [co] -> [n, l', co]."""
    return _convolution("conv1d", _Window((l,), k, stride, pad, dilation), n, ci, co, bias, act, const, dtype)


def conv2d(
    n: int = 1,
    h: int = 56,
    w: int = 56,
    ci: int = 64,
    co: int = 64,
    k: int = 3,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    bias: bool = False,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """x[n, h, w, ci] with weights [k, k, ci, co] and bias [co] -> [n, h', w', co], where
    h' = (h + 2*pad - dilation*(k - 1) - 1) // stride + 1."""
    window = _Window((h, w), k, stride, pad, dilation)
    return _convolution("conv2d", window, n, ci, co, bias, act, const, dtype)


def conv3d(
    n: int = 1,
    d: int = 16,
    h: int = 56,
    w: int = 56,
    ci: int = 16,
    co: int = 16,
    k: int = 3,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    bias: bool = False,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """x[n, d, h, w, ci] with weights [k, k, k, ci, co] and bias [co] -> [n, d', h', w', co]."""
    window = _Window((d, h, w), k, stride, pad, dilation)
    return _convolution("conv3d", window, n, ci, co, bias, act, const, dtype)


def depthwise_conv2d(
    n: int = 1,
    h: int = 112,
    w: int = 112,
    c: int = 32,
    k: int = 3,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    bias: bool = False,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """Each channel by itself: x[n, h, w, c] with weights [k, k, c] and bias [c] -> [n, h', w', c]."""
    window = _Window((h, w), k, stride, pad, dilation)
    window.check()
    shift = f", b: {operand(_shape(dtype, c), const)}" if bias else ""
    weights = operand(_shape(dtype, k, k, c), const)
    pad_x, source = window.padded()
    return (
        f"def depthwise_conv2d(x: {_shape(dtype, n, h, w, c)}, w: {weights}{shift}):\n{pad_x}"
        f"    y[n, h, v, c] = sum({source}[n, {window.index}, c] * w[r, s, c], (r, s))\n"
        f"    return {activated('y[n, h, v, c]', 'b[c]' if bias else None, act)}\n"
    )


def group_conv2d(
    n: int = 1,
    h: int = 56,
    w: int = 56,
    ci: int = 64,
    co: int = 64,
    k: int = 3,
    groups: int = 4,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    bias: bool = False,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """Channels in groups: x[n, h, w, ci] with weights [k, k, ci/groups, groups, co/groups] and bias
    [groups, co/groups] -> [n, h', w', groups, co/groups], which in memory is [n, h', w', co]."""
    if ci % groups or co % groups:
        raise ProgramError(f"groups={groups} must divide ci={ci} and co={co}")
    window = _Window((h, w), k, stride, pad, dilation)
    window.check()
    weights = operand(_shape(dtype, k, k, ci // groups, groups, co // groups), const)
    shift = f", b: {operand(_shape(dtype, groups, co // groups), const)}" if bias else ""
    pad_x, source = window.padded()
    channel = f"{_times(ci // groups, 'g')} + c"
    return (
        f"def group_conv2d(x: {_shape(dtype, n, h, w, ci)}, w: {weights}{shift}):\n{pad_x}"
        f"    y[n, h, v, g, o] = sum({source}[n, {window.index}, {channel}] * w[r, s, c, g, o], (r, s, c))\n"
        f"    return {activated('y[n, h, v, g, o]', 'b[g, o]' if bias else None, act)}\n"
    )


def max_pool2d(
    n: int = 1,
    h: int = 112,
    w: int = 112,
    c: int = 64,
    k: int = 2,
    stride: int | None = None,
    pad: int = 0,
    dtype: str = "f32",
) -> str:
    """Maximum over windows of x[n, h, w, c] -> [n, h', w', c]; ``stride`` is k if not given."""
    return _pool("max_pool2d", "max", n, (h, w), c, k, stride or k, pad, ", value=-inf", dtype)


def avg_pool2d(
    n: int = 1,
    h: int = 112,
    w: int = 112,
    c: int = 64,
    k: int = 2,
    stride: int | None = None,
    pad: int = 0,
    dtype: str = "f32",
) -> str:
    """Mean over windows of x[n, h, w, c], zeros of the padding included -> [n, h', w', c]."""
    return _pool("avg_pool2d", "mean", n, (h, w), c, k, stride or k, pad, "", dtype)


def _pool(
    name: str,
    reducer: str,
    n: int,
    sizes: Sequence[int],
    c: int,
    k: int,
    stride: int,
    pad: int,
    value: str,
    dtype: str,
) -> str:
    window = _Window(tuple(sizes), k, stride, pad, 1)
    window.check()
    pad_x, source = window.padded(value)
    return (
        f"def {name}(x: {_shape(dtype, n, *sizes, c)}):\n{pad_x}"
        f"    y[n, h, v, c] = {reducer}({source}[n, {window.index}, c], r={k}, s={k})\n"
        f"    return y\n"
    )
