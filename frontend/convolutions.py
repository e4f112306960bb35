"""Convolutions as text. Channels come last: x[n, h, w, ci], weights [k, k, ci, co]."""

from tunesmith.frontend.text import Epilogue, operand, shape
from tunesmith.frontend.windows import Window, times
from tunesmith.ir.errors import ProgramError

__all__ = ["conv1d", "conv2d", "conv3d", "depthwise_conv2d", "group_conv2d"]


def _convolution(
    name: str, w: Window, n: int, ci: int, co: int, end: Epilogue, const: bool, dtype: str
) -> str:
    """``end`` speaks of the result y[n, positions, o]."""
    weights = operand(shape(dtype, *[w.k] * len(w.sizes), ci, co), const)
    others = end.inputs(shape(dtype, co), shape(dtype, n, *w.outputs, co), const)
    pad, source = w.padded()
    window = w.reduce_axes
    return (
        f"def {name}(x: {shape(dtype, n, *w.sizes, ci)}, w: {weights}{others}):\n{pad}"
        f"    {end.value} = sum({source}[n, {w.index}, c] * w[{window}, c, o], ({window}, c))\n"
        f"    return {end.text}\n"
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
    *,
    residual: bool = False,
) -> str:
    """x[n, l, ci] with weights [k, ci, co], bias [co] and a residual -> [n, l', co]."""
    window = Window((l,), k, stride, pad, dilation)
    end = Epilogue("y[n, h, o]", "o", bias, residual, act)
    return _convolution("conv1d", window, n, ci, co, end, const, dtype)


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
    *,
    residual: bool = False,
) -> str:
    """x[n, h, w, ci] with weights [k, k, ci, co], bias [co] and a residual -> [n, h', w', co], where
    h' = (h + 2*pad - dilation*(k - 1) - 1) // stride + 1."""
    window = Window((h, w), k, stride, pad, dilation)
    end = Epilogue("y[n, h, v, o]", "o", bias, residual, act)
    return _convolution("conv2d", window, n, ci, co, end, const, dtype)


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
    *,
    residual: bool = False,
) -> str:
    """x[n, d, h, w, ci] with weights [k, k, k, ci, co], bias [co] and a residual ->
    [n, d', h', w', co]."""
    window = Window((d, h, w), k, stride, pad, dilation)
    end = Epilogue("y[n, h, v, u, o]", "o", bias, residual, act)
    return _convolution("conv3d", window, n, ci, co, end, const, dtype)


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
    *,
    factor: int = 1,
) -> str:
    """Each channel by itself: x[n, h, w, c] with weights [k, k, c] and bias [c] -> [n, h', w', c]. With a
    ``factor`` above 1 each channel gives so many: weights [k, k, c, factor], bias [c, factor] ->
    [n, h', w', c, factor], which in memory is [n, h', w', c*factor]."""
    window = Window((h, w), k, stride, pad, dilation)
    several, o = ((factor,), ", o") if factor > 1 else ((), "")
    end = Epilogue(f"y[n, h, v, c{o}]", f"c{o}", bias, False, act)
    others = end.inputs(shape(dtype, c, *several), "", const)
    weights = operand(shape(dtype, k, k, c, *several), const)
    pad_x, source = window.padded()
    return (
        f"def depthwise_conv2d(x: {shape(dtype, n, h, w, c)}, w: {weights}{others}):\n{pad_x}"
        f"    {end.value} = sum({source}[n, {window.index}, c] * w[r, s, c{o}], (r, s))\n"
        f"    return {end.text}\n"
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
    window = Window((h, w), k, stride, pad, dilation)
    weights = operand(shape(dtype, k, k, ci // groups, groups, co // groups), const)
    end = Epilogue("y[n, h, v, g, o]", "g, o", bias, False, act)
    others = end.inputs(shape(dtype, groups, co // groups), "", const)
    pad_x, source = window.padded()
    channel = f"{times(ci // groups, 'g')} + c"
    return (
        f"def group_conv2d(x: {shape(dtype, n, h, w, ci)}, w: {weights}{others}):\n{pad_x}"
        f"    {end.value} = sum({source}[n, {window.index}, {channel}] * w[r, s, c, g, o], (r, s, c))\n"
        f"    return {end.text}\n"
    )
