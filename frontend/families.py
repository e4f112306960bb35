"""Further families of operators as text: transposed and capsule convolutions, fused and re-ordered forms."""

from tunesmith.frontend.text import activated, operand
from tunesmith.ir.errors import ProgramError

__all__ = [
    "conv2d_bn_relu",
    "conv2d_capsule",
    "conv2d_nchw",
    "conv2d_transpose",
    "transpose_batch_matmul",
]


def _output(size: int, k: int, stride: int, pad: int) -> int:
    out = (size + 2 * pad - k) // stride + 1
    if size + 2 * pad < k or out < 1:
        raise ProgramError(f"a window of {k} does not fit in {size} padded by {pad}")
    return out


def _pad(pad: int, before: int, after: int) -> tuple[str, str]:
    """A statement that pads the two dimensions between ``before`` and ``after`` others, and its name."""
    if not pad:
        return "", "x"
    zero = ["(0, 0)"]
    widths = ", ".join(zero * before + [f"({pad}, {pad})"] * 2 + zero * after)
    return f"    p = pad(x, ({widths}))\n", "p"


def conv2d_bn_relu(
    n: int = 1,
    h: int = 56,
    w: int = 56,
    ci: int = 64,
    co: int = 64,
    k: int = 3,
    stride: int = 1,
    pad: int = 1,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """relu((conv2d(x, w) + bias) * scale + offset): x[n, h, w, ci], weights [k, k, ci, co], others [co]."""
    _output(h, k, stride, pad), _output(w, k, stride, pad)
    source, name = _pad(pad, 1, 1)
    weights, each = operand(f"{dtype}[{k}, {k}, {ci}, {co}]", const), operand(f"{dtype}[{co}]", const)
    return f"""
def conv2d_bn_relu(x: {dtype}[{n}, {h}, {w}, {ci}], w: {weights}, b: {each}, scale: {each}, offset: {each}):
{source}    y[n, h, v, o] = sum({name}[n, {stride}*h + r, {stride}*v + s, c] * w[r, s, c, o], (r, s, c))
    return relu((y[n, h, v, o] + b[o]) * scale[o] + offset[o])
""".lstrip()


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
) -> str:
    """x[n, ci, h, w] with weights [co, ci, k, k] and bias [co] -> [n, co, h', w']."""
    _output(h, k, stride, pad), _output(w, k, stride, pad)
    source, name = _pad(pad, 2, 0)
    weights = operand(f"{dtype}[{co}, {ci}, {k}, {k}]", const)
    shift = f", b: {operand(f'{dtype}[{co}]', const)}" if bias else ""
    result = activated("y[n, o, h, v]", "b[o]" if bias else None, act)
    return f"""
def conv2d_nchw(x: {dtype}[{n}, {ci}, {h}, {w}], w: {weights}{shift}):
{source}    y[n, o, h, v] = sum({name}[n, c, {stride}*h + r, {stride}*v + s] * w[o, c, r, s], (c, r, s))
    return {result}
""".lstrip()


def conv2d_transpose(
    n: int = 1,
    h: int = 4,
    w: int = 4,
    ci: int = 512,
    co: int = 256,
    k: int = 4,
    stride: int = 2,
    pad: int = 1,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """x[n, h, w, ci] with weights [k, k, ci, co] -> [n, h, stride, w, stride, co]: in memory this is
    [n, stride*h, stride*w, co]. For each position within a stride only the weights that meet data are
    multiplied, none of the zeros that the definition inserts. k must be a multiple of stride and
    2*pad = k - stride, as in upsampling layers."""
    if k % stride or 2 * pad != k - stride or (pad % stride and stride != 2):
        raise ProgramError(
            f"k={k}, stride={stride}, pad={pad}: k must be a multiple of stride, 2*pad equal k - stride, and "
            "pad a multiple of stride unless that is 2"
        )
    taps = k // stride
    # Output stride*i + a takes x[i + e - t] times w[stride*t + q], where a + pad = stride*e + q.
    weights = operand(f"{dtype}[{k}, {k}, {ci}, {co}]", const)
    low, high = taps - 1 - pad // stride, pad // stride + pad % stride
    shift, q = ("{a} + ", "1 - {a}") if pad % stride else ("", "{a}")
    at = [f"{x} + {shift.format(a=a)}{taps - 1} - {t}" for x, a, t in (("h", "a", "r"), ("v", "e", "s"))]
    tap = [f"{stride}*{t} + {q.format(a=a)}" for a, t in (("a", "r"), ("e", "s"))]
    axes = f"n, h:{h}, a:{stride}, v:{w}, e:{stride}, o"
    body = f"p[n, {at[0]}, {at[1]}, c] * w[{tap[0]}, {tap[1]}, c, o]"
    sizes = f"({low}, {high}), ({low}, {high})"
    return f"""
def conv2d_transpose(x: {dtype}[{n}, {h}, {w}, {ci}], w: {weights}):
    p = pad(x, ((0, 0), {sizes}, (0, 0)))
    y[{axes}] = sum({body}, r={taps}, s={taps}, c={ci})
    return y
""".lstrip()


def conv2d_capsule(
    n: int = 1,
    h: int = 16,
    w: int = 16,
    ci: int = 32,
    co: int = 32,
    k: int = 3,
    stride: int = 2,
    pad: int = 1,
    size: int = 4,
    const: bool = True,
    dtype: str = "f32",
) -> str:
    """Capsules are size×size matrices: x[n, h, w, size, size, ci] with weights [k, k, size, size, ci, co] ->
    [n, h', w', size, size, co], each a sum of matrix products over the window and ci."""
    _output(h, k, stride, pad), _output(w, k, stride, pad)
    source, name = _pad(pad, 1, 3)
    weights = operand(f"{dtype}[{k}, {k}, {size}, {size}, {ci}, {co}]", const)
    at = f"{name}[n, {stride}*h + r, {stride}*v + s, i, q, c]"
    return f"""
def conv2d_capsule(x: {dtype}[{n}, {h}, {w}, {size}, {size}, {ci}], w: {weights}):
{source}    y[n, h, v, i, j, o] = sum({at} * w[r, s, q, j, c, o], (r, s, q, c))
    return y
""".lstrip()


def transpose_batch_matmul(
    batch: int = 1, seq: int = 128, heads: int = 12, dim: int = 64, dtype: str = "f32"
) -> str:
    """Attention scores: q[batch, seq, heads, dim] and k likewise -> [batch, heads, seq, seq]."""
    each = f"{dtype}[{batch}, {seq}, {heads}, {dim}]"
    return f"""
def transpose_batch_matmul(q: {each}, k: {each}):
    y[b, h, i, j] = sum(q[b, i, h, d] * k[b, j, h, d], d)
    return y
""".lstrip()
