"""Further families of operators as text: transposed and capsule convolutions, fused normalisation."""

from tunesmith.frontend.text import operand, shape
from tunesmith.frontend.windows import Window
from tunesmith.ir.errors import ProgramError

__all__ = ["conv2d_bn_relu", "conv2d_capsule", "conv2d_transpose"]


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
    window = Window((h, w), k, stride, pad)
    pad_x, source = window.padded()
    weights, each = operand(shape(dtype, k, k, ci, co), const), operand(shape(dtype, co), const)
    inputs = f"x: {shape(dtype, n, h, w, ci)}, w: {weights}, b: {each}, scale: {each}, offset: {each}"
    return (
        f"def conv2d_bn_relu({inputs}):\n{pad_x}"
        f"    y[n, h, v, o] = sum({source}[n, {window.index}, c] * w[r, s, c, o], (r, s, c))\n"
        f"    return relu((y[n, h, v, o] + b[o]) * scale[o] + offset[o])\n"
    )


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
    window = Window((h, w), k, stride, pad)
    pad_x, source = window.padded(1, 3)
    weights = operand(shape(dtype, k, k, size, size, ci, co), const)
    return (
        f"def conv2d_capsule(x: {shape(dtype, n, h, w, size, size, ci)}, w: {weights}):\n{pad_x}"
        f"    y[n, h, v, i, j, o] = sum({source}[n, {window.index}, i, q, c] * w[r, s, q, j, c, o],"
        f" (r, s, q, c))\n"
        f"    return y\n"
    )
