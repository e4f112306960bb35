"""Named operators: from sizes to a program in the expression language.

Each function returns text, so that what an operator means can be read, changed and posted. Activations
are NHWC and row-major; weights and the like are declared ``const``. ``dtype`` is f32 or f64.
"""

from collections.abc import Callable, Mapping

from tunesmith.frontend.convolutions import (
    avg_pool2d,
    conv1d,
    conv2d,
    conv3d,
    depthwise_conv2d,
    group_conv2d,
    max_pool2d,
)
from tunesmith.frontend.families import (
    conv2d_bn_relu,
    conv2d_capsule,
    conv2d_nchw,
    conv2d_transpose,
    transpose_batch_matmul,
)
from tunesmith.frontend.text import activated, operand

__all__ = [
    "OPERATORS",
    "attention",
    "batch_matmul",
    "dense",
    "gemv",
    "layer_norm",
    "matmul",
    "norm",
    "relu_muladd",
    "rms_norm",
    "softmax",
    "sumsq",
    "transpose",
]


def matmul(m: int = 512, n: int = 512, k: int = 512, dtype: str = "f32") -> str:
    """a[m, k] @ b[k, n] -> [m, n]."""
    return f"""\
def matmul(a: {dtype}[{m}, {k}], b: {dtype}[{k}, {n}]):
    c[i, j] = sum(a[i, k] * b[k, j], k)
    return c
"""


def batch_matmul(b: int = 16, m: int = 128, n: int = 128, k: int = 64, dtype: str = "f32") -> str:
    """x[b, m, k] @ y[b, k, n] -> [b, m, n]."""
    return f"""\
def batch_matmul(x: {dtype}[{b}, {m}, {k}], y: {dtype}[{b}, {k}, {n}]):
    z[b, i, j] = sum(x[b, i, k] * y[b, k, j], k)
    return z
"""


def gemv(m: int = 4096, k: int = 4096, const: bool = False, dtype: str = "f32") -> str:
    """a[m, k] @ x[k] -> [m]; ``const``: the matrix is known before the run."""
    return f"""\
def gemv(a: {operand(f"{dtype}[{m}, {k}]", const)}, x: {dtype}[{k}]):
    y[i] = sum(a[i, k] * x[k], k)
    return y
"""


def dense(
    m: int = 128,
    n: int = 3072,
    k: int = 768,
    bias: bool = True,
    act: str | None = None,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """act(x[m, k] @ w[n, k].T + b[n]) -> [m, n]; ``act`` is relu, gelu, gelu_tanh, silu, tanh or sigmoid."""
    weights = f"w: {operand(f'{dtype}[{n}, {k}]', const)}"
    shift = f", b: {operand(f'{dtype}[{n}]', const)}" if bias else ""
    return f"""\
def dense(x: {dtype}[{m}, {k}], {weights}{shift}):
    y[i, o] = sum(x[i, k] * w[o, k], k)
    return {activated("y[i, o]", "b[o]" if bias else None, act)}
"""


def softmax(m: int = 512, n: int = 1024, dtype: str = "f32") -> str:
    """Softmax over the last axis of x[m, n] -> [m, n]."""
    return f"""\
def softmax(x: {dtype}[{m}, {n}]):
    return softmax(x, axis=-1)
"""


def layer_norm(m: int = 512, n: int = 768, eps: float = 1e-5, dtype: str = "f32") -> str:
    """Layer normalisation over the last axis of x[m, n] with gamma[n], beta[n] -> [m, n]."""
    weights = f"gamma: const[{dtype}[{n}]], beta: const[{dtype}[{n}]]"
    return f"""\
def layer_norm(x: {dtype}[{m}, {n}], {weights}):
    return layer_norm(x, gamma, beta, eps={eps!r})
"""


def rms_norm(m: int = 512, n: int = 768, eps: float = 1e-5, dtype: str = "f32") -> str:
    """x / sqrt(mean of squares over the last axis + eps) * gamma, for x[m, n], gamma[n] -> [m, n]."""
    return f"""\
def rms_norm(x: {dtype}[{m}, {n}], gamma: const[{dtype}[{n}]]):
    return rms_norm(x, gamma, eps={eps!r})
"""


def sumsq(m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """Sum of squares of each row of x[m, n] -> [m]."""
    return f"""\
def sumsq(x: {dtype}[{m}, {n}]):
    y[i] = sum(x[i, j] * x[i, j], j)
    return y
"""


def norm(b: int = 1, m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """Frobenius norm of each matrix of x[b, m, n] -> [b]."""
    return f"""\
def norm(x: {dtype}[{b}, {m}, {n}]):
    return sqrt(sum(x[b, i, j] * x[b, i, j], (i, j)))
"""


def relu_muladd(n: int = 1 << 20, dtype: str = "f32") -> str:
    """relu(a * b + c) on vectors [n] -> [n]: elementwise, bound by memory."""
    return f"""\
def relu_muladd(a: {dtype}[{n}], b: {dtype}[{n}], c: {dtype}[{n}]):
    y[i] = relu(a[i] * b[i] + c[i])
    return y
"""


def transpose(m: int = 1024, n: int = 1024, dtype: str = "f32") -> str:
    """x[m, n] -> [n, m]."""
    return f"""\
def transpose(x: {dtype}[{m}, {n}]):
    y[j, i] = x[i, j]
    return y
"""


def attention(h: int = 12, m: int = 128, d: int = 64, dtype: str = "f32") -> str:
    """softmax(q @ k.T / sqrt(d)) @ v for h heads: q, k, v are [h, m, d] -> [h, m, d]."""
    each = f"{dtype}[{h}, {m}, {d}]"
    return f"""\
def attention(q: {each}, k: {each}, v: {each}):
    s[h, i, j] = sum(q[h, i, d] * k[h, j, d], d)
    t[h, i, j] = s[h, i, j] * {d**-0.5!r}
    p = softmax(t, axis=-1)
    o[h, i, d] = sum(p[h, i, j] * v[h, j, d], j)
    return o
"""


OPERATORS: Mapping[str, Callable[..., str]] = {
    f.__name__: f
    for f in (
        matmul,
        batch_matmul,
        gemv,
        dense,
        conv1d,
        conv2d,
        conv3d,
        depthwise_conv2d,
        group_conv2d,
        conv2d_nchw,
        conv2d_bn_relu,
        conv2d_transpose,
        conv2d_capsule,
        max_pool2d,
        avg_pool2d,
        transpose_batch_matmul,
        softmax,
        layer_norm,
        rms_norm,
        sumsq,
        norm,
        relu_muladd,
        transpose,
        attention,
    )
}
