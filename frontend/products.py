"""Matrix products as text, and what is made of several of them."""

from tunesmith.frontend.text import Epilogue, operand, shape

__all__ = ["attention", "batch_matmul", "dense", "gemv", "matmul", "transpose_batch_matmul"]


def matmul(
    m: int = 512,
    n: int = 512,
    k: int = 512,
    dtype: str = "f32",
    *,
    ta: bool = False,
    tb: bool = False,
    bias: bool = False,
    residual: bool = False,
    act: str | None = None,
    const: bool = False,
) -> str:
    """act(a[m, k] @ b[k, n] + bias[n] + res[m, n]) -> [m, n]. ``ta``: a is given as [k, m]; ``tb``: b as
    [n, k]; ``const``: b and bias are known before the run."""
    end = Epilogue("c[i, j]", "j", bias, residual, act, shift="bias")
    a, a_index = _matrix(dtype, (), m, k, "i, k", "k, i", ta)
    b, b_index = _matrix(dtype, (), k, n, "k, j", "j, k", tb)
    others = end.inputs(shape(dtype, n), shape(dtype, m, n), const)
    return f"""\
def matmul(a: {a}, b: {operand(b, const)}{others}):
    c[i, j] = sum(a[{a_index}] * b[{b_index}], k)
    return {end.text}
"""


def batch_matmul(
    b: int = 16,
    m: int = 128,
    n: int = 128,
    k: int = 64,
    dtype: str = "f32",
    *,
    ta: bool = False,
    tb: bool = False,
) -> str:
    """x[b, m, k] @ y[b, k, n] -> [b, m, n]. ``ta``: x is given as [b, k, m]; ``tb``: y as [b, n, k]."""
    x, x_index = _matrix(dtype, (b,), m, k, "i, k", "k, i", ta)
    y, y_index = _matrix(dtype, (b,), k, n, "k, j", "j, k", tb)
    return f"""\
def batch_matmul(x: {x}, y: {y}):
    z[b, i, j] = sum(x[b, {x_index}] * y[b, {y_index}], k)
    return z
"""


def gemv(m: int = 4096, k: int = 4096, const: bool = False, dtype: str = "f32", *, ta: bool = False) -> str:
    """a[m, k] @ x[k] -> [m]. ``ta``: a is given as [k, m]; ``const``: a is known before the run."""
    a, index = _matrix(dtype, (), m, k, "i, k", "k, i", ta)
    return f"""\
def gemv(a: {operand(a, const)}, x: {shape(dtype, k)}):
    y[i] = sum(a[{index}] * x[k], k)
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
    *,
    residual: bool = False,
) -> str:
    """act(x[m, k] @ w[n, k].T + b[n] + res[m, n]) -> [m, n]; ``act`` is relu, gelu, gelu_tanh, silu, tanh or
    sigmoid."""
    end = Epilogue("y[i, o]", "o", bias, residual, act)
    others = end.inputs(shape(dtype, n), shape(dtype, m, n), const)
    return f"""\
def dense(x: {shape(dtype, m, k)}, w: {operand(shape(dtype, n, k), const)}{others}):
    y[i, o] = sum(x[i, k] * w[o, k], k)
    return {end.text}
"""


def transpose_batch_matmul(
    batch: int = 1, seq: int = 128, heads: int = 12, dim: int = 64, dtype: str = "f32"
) -> str:
    """Attention scores: q[batch, seq, heads, dim] and k likewise -> [batch, heads, seq, seq]."""
    each = shape(dtype, batch, seq, heads, dim)
    return f"""\
def transpose_batch_matmul(q: {each}, k: {each}):
    y[b, h, i, j] = sum(q[b, i, h, d] * k[b, j, h, d], d)
    return y
"""


def attention(h: int = 12, m: int = 128, d: int = 64, dtype: str = "f32", *, kv: int | None = None) -> str:
    """softmax(q @ k.T / sqrt(d)) @ v for h heads: q[h, m, d], k and v [h, kv, d] -> [h, m, d]; ``kv`` is m
    if not given."""
    each = shape(dtype, h, kv or m, d)
    return f"""\
def attention(q: {shape(dtype, h, m, d)}, k: {each}, v: {each}):
    s[h, i, j] = sum(q[h, i, d] * k[h, j, d], d)
    t[h, i, j] = s[h, i, j] * {d**-0.5!r}
    p = softmax(t, axis=-1)
    o[h, i, d] = sum(p[h, i, j] * v[h, j, d], j)
    return o
"""


def _matrix(
    dtype: str, batch: tuple[int, ...], rows: int, columns: int, index: str, crossed: str, transposed: bool
) -> tuple[str, str]:
    """The type of a matrix and how it is indexed, as it is or stored the other way round."""
    if transposed:
        return shape(dtype, *batch, columns, rows), crossed
    return shape(dtype, *batch, rows, columns), index
