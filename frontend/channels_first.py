"""Operators on images whose channels come first, as text: x[n, c, h, w], weights [co, ci, k, k]."""

from tunesmith.frontend.text import Epilogue, operand, shape
from tunesmith.frontend.windows import Window

__all__ = [
    "avg_pool2d_nchw",
    "conv2d_nchw",
    "depthwise_conv2d_nchw",
    "global_avg_pool_nchw",
    "max_pool2d_nchw",
]


def conv2d_nchw(
    n: int = 1,
    ci: int = 64,
    h: int = 56,
    w: int = 56,
    co: int = 64,
    k: int = 3,
    stride: int = 1,
    pad: int = 0,
    bias: bool = False,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
    *,
    dilation: int = 1,
    residual: bool = False,
) -> str:
    """x[n, ci, h, w] with weights [co, ci, k, k], bias [co] and a residual -> [n, co, h', w']."""
    window = Window((h, w), k, stride, pad, dilation)
    pad_x, source = window.padded(2, 0)
    end = Epilogue("y[n, o, h, v]", "o", bias, residual, act)
    weights = operand(shape(dtype, co, ci, k, k), const)
    others = end.inputs(shape(dtype, co), shape(dtype, n, co, *window.outputs), const)
    return (
        f"def conv2d_nchw(x: {shape(dtype, n, ci, h, w)}, w: {weights}{others}):\n{pad_x}"
        f"    y[n, o, h, v] = sum({source}[n, c, {window.index}] * w[o, c, r, s], (c, r, s))\n"
        f"    return {end.text}\n"
    )


def depthwise_conv2d_nchw(
    n: int = 1,
    c: int = 32,
    h: int = 112,
    w: int = 112,
    k: int = 3,
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    bias: bool = False,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """Each channel by itself: x[n, c, h, w] with weights [c, k, k] and bias [c] -> [n, c, h', w']."""
    window = Window((h, w), k, stride, pad, dilation)
    pad_x, source = window.padded(2, 0)
    end = Epilogue("y[n, c, h, v]", "c", bias, False, act)
    weights = operand(shape(dtype, c, k, k), const)
    others = end.inputs(shape(dtype, c), "", const)
    return (
        f"def depthwise_conv2d_nchw(x: {shape(dtype, n, c, h, w)}, w: {weights}{others}):\n{pad_x}"
        f"    y[n, c, h, v] = sum({source}[n, c, {window.index}] * w[c, r, s], (r, s))\n"
        f"    return {end.text}\n"
    )


def max_pool2d_nchw(
    n: int = 1,
    c: int = 64,
    h: int = 112,
    w: int = 112,
    k: int = 2,
    stride: int | None = None,
    pad: int = 0,
    dtype: str = "f32",
) -> str:
    """Maximum over windows of x[n, c, h, w] -> [n, c, h', w']; ``stride`` is k if not given."""
    window = Window((h, w), k, stride or k, pad)
    return _pool("max_pool2d_nchw", "max", window, shape(dtype, n, c, h, w), "-inf")


def avg_pool2d_nchw(
    n: int = 1,
    c: int = 64,
    h: int = 112,
    w: int = 112,
    k: int = 2,
    stride: int | None = None,
    pad: int = 0,
    dtype: str = "f32",
) -> str:
    """Mean over windows of x[n, c, h, w], zeros of the padding included -> [n, c, h', w']."""
    window = Window((h, w), k, stride or k, pad)
    return _pool("avg_pool2d_nchw", "mean", window, shape(dtype, n, c, h, w), "0")


def _pool(name: str, reducer: str, window: Window, x: str, value: str) -> str:
    pad, source = window.padded(2, 0, value)
    return (
        f"def {name}(x: {x}):\n{pad}"
        f"    y[n, c, h, v] = {reducer}({source}[n, c, {window.index}], r={window.k}, s={window.k})\n"
        f"    return y\n"
    )


def global_avg_pool_nchw(n: int = 1, c: int = 512, h: int = 7, w: int = 7, dtype: str = "f32") -> str:
    """Mean over all positions of x[n, c, h, w] -> [n, c]."""
    return (
        f"def global_avg_pool_nchw(x: {shape(dtype, n, c, h, w)}):\n"
        f"    y[n, c] = mean(x[n, c, h, v], (h, v))\n    return y\n"
    )
