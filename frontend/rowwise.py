"""Operators that are bound by memory, as text: normalisations, reductions of rows, elementwise ones."""

from tunesmith.frontend.text import Epilogue, shape

__all__ = [
    "activation",
    "layer_norm",
    "mean",
    "moments",
    "norm",
    "relu_muladd",
    "rms_norm",
    "softmax",
    "sumsq",
    "transpose",
    "variance",
]


def softmax(m: int = 512, n: int = 1024, dtype: str = "f32") -> str:
    """Softmax over the last axis of x[m, n] -> [m, n]."""
    return f"""\
def softmax(x: {shape(dtype, m, n)}):
    return softmax(x, axis=-1)
"""


def layer_norm(m: int = 512, n: int = 768, eps: float = 1e-5, dtype: str = "f32") -> str:
    """Layer normalisation over the last axis of x[m, n] with gamma[n], beta[n] -> [m, n]."""
    weights = f"gamma: const[{shape(dtype, n)}], beta: const[{shape(dtype, n)}]"
    return f"""\
def layer_norm(x: {shape(dtype, m, n)}, {weights}):
    return layer_norm(x, gamma, beta, eps={eps!r})
"""


def rms_norm(m: int = 512, n: int = 768, eps: float = 1e-5, dtype: str = "f32") -> str:
    """x / sqrt(mean of squares over the last axis + eps) * gamma, for x[m, n], gamma[n] -> [m, n]."""
    return f"""\
def rms_norm(x: {shape(dtype, m, n)}, gamma: const[{shape(dtype, n)}]):
    return rms_norm(x, gamma, eps={eps!r})
"""


def sumsq(m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """Sum of squares of each row of x[m, n] -> [m]."""
    return f"""\
def sumsq(x: {shape(dtype, m, n)}):
    y[i] = sum(x[i, j] * x[i, j], j)
    return y
"""


def norm(b: int = 1, m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """Frobenius norm of each matrix of x[b, m, n] -> [b]."""
    return f"""\
def norm(x: {shape(dtype, b, m, n)}):
    return sqrt(sum(x[b, i, j] * x[b, i, j], (i, j)))
"""


def mean(m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """Mean of each row of x[m, n] -> [m]."""
    return f"""\
def mean(x: {shape(dtype, m, n)}):
    return mean(x, axis=-1)
"""


def variance(m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """Variance of each row of x[m, n], in two passes: the mean of squares of x - mean -> [m]."""
    return f"""\
def variance(x: {shape(dtype, m, n)}):
{_MOMENTS}    return v
"""


def moments(m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """Mean and variance of each row of x[m, n] -> [m], [m]."""
    return f"""\
def moments(x: {shape(dtype, m, n)}):
{_MOMENTS}    return u, v
"""


_MOMENTS = """\
    u[i] = mean(x[i, j], j)
    v[i] = mean((x[i, j] - u[i]) * (x[i, j] - u[i]), j)
"""


def relu_muladd(n: int = 1 << 20, dtype: str = "f32") -> str:
    """relu(a * b + c) on vectors [n] -> [n]: elementwise, bound by memory."""
    each = shape(dtype, n)
    return f"""\
def relu_muladd(a: {each}, b: {each}, c: {each}):
    y[i] = relu(a[i] * b[i] + c[i])
    return y
"""


def activation(
    m: int = 512,
    n: int = 1024,
    act: str = "gelu",
    bias: bool = False,
    residual: bool = False,
    dtype: str = "f32",
) -> str:
    """act(x[m, n] + b[n] + res[m, n]) -> [m, n]; ``act`` is relu, gelu, gelu_tanh, silu, tanh or sigmoid."""
    end = Epilogue("x[i, j]", "j", bias, residual, act)
    others = end.inputs(shape(dtype, n), shape(dtype, m, n), const=True)
    return f"""\
def activation(x: {shape(dtype, m, n)}{others}):
    y[i, j] = {end.text}
    return y
"""


def transpose(m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """x[m, n] -> [n, m]."""
    return f"""\
def transpose(x: {shape(dtype, m, n)}):
    y[j, i] = x[i, j]
    return y
"""
