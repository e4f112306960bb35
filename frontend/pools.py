"""Pools as text. Channels come last: x[n, h, w, c]."""

from tunesmith.frontend.text import shape
from tunesmith.frontend.windows import Window

__all__ = ["avg_pool2d", "global_avg_pool", "global_max_pool", "max_pool2d"]


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
    window = Window((h, w), k, stride or k, pad)
    return _pool("max_pool2d", "max", window, shape(dtype, n, h, w, c), "-inf")


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
    window = Window((h, w), k, stride or k, pad)
    return _pool("avg_pool2d", "mean", window, shape(dtype, n, h, w, c), "0")


def _pool(name: str, reducer: str, window: Window, x: str, value: str) -> str:
    pad, source = window.padded(value=value)
    return (
        f"def {name}(x: {x}):\n{pad}"
        f"    y[n, h, v, c] = {reducer}({source}[n, {window.index}, c], r={window.k}, s={window.k})\n"
        f"    return y\n"
    )


def global_max_pool(n: int = 1, h: int = 7, w: int = 7, c: int = 512, dtype: str = "f32") -> str:
    """Maximum over all positions of x[n, h, w, c] -> [n, c]."""
    return _global("global_max_pool", "max", shape(dtype, n, h, w, c))


def global_avg_pool(n: int = 1, h: int = 7, w: int = 7, c: int = 512, dtype: str = "f32") -> str:
    """Mean over all positions of x[n, h, w, c] -> [n, c]."""
    return _global("global_avg_pool", "mean", shape(dtype, n, h, w, c))


def _global(name: str, reducer: str, x: str) -> str:
    return f"def {name}(x: {x}):\n    y[n, c] = {reducer}(x[n, h, v, c], (h, v))\n    return y\n"
