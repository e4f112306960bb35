"""The reference against NumPy written by hand; both its paths, its edges, its silence."""

import numpy as np
import pytest
from ir_samples import TEXTS, inputs_of, plain_nest

from tunesmith.ir import TunesmithError, evaluate, parse, run_nest


def result(text: str, **inputs: object) -> np.ndarray:
    (out,) = evaluate(parse(text), {k: np.asarray(v) for k, v in inputs.items()}).values()
    return out


@pytest.mark.parametrize("text", TEXTS)
def test_samples_equal_plain_loops(text: str) -> None:
    p = parse(text)
    inputs = inputs_of(p)
    expected = run_nest(plain_nest(p), inputs)
    for name, array in evaluate(p, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def conv_reference(x: np.ndarray, w: np.ndarray, stride: int, dilation: int) -> np.ndarray:
    k = w.shape[0]
    h, v = ((n - dilation * (k - 1) - 1) // stride + 1 for n in x.shape[1:3])
    out = np.zeros((x.shape[0], h, v, w.shape[3]))
    for r in range(k):
        for s in range(k):
            rows = slice(dilation * r, dilation * r + stride * (h - 1) + 1, stride)
            columns = slice(dilation * s, dilation * s + stride * (v - 1) + 1, stride)
            out += np.tensordot(x[:, rows, columns].astype(np.float64), w[r, s].astype(np.float64), 1)
    return out


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (2, 3)])
def test_convolutions(stride: int, dilation: int) -> None:
    text = f"""
def conv(x: f32[2, 30, 29, 16], w: f32[3, 3, 16, 24]):
    h_v = sum(x[n, {stride}*h + {dilation}*r, {stride}*v + {dilation}*s, c] * w[r, s, c, o], (r, s, c))
    return h_v
""".replace("h_v = sum", "y[n, h, v, o] = sum").replace("return h_v", "return y")
    inputs = inputs_of(parse(text))
    expected = conv_reference(inputs["x"], inputs["w"], stride, dilation)
    np.testing.assert_allclose(result(text, **inputs), expected, rtol=1e-12, atol=1e-12)


def test_inlined_padding_is_the_padded_stage() -> None:
    inlined = """
def conv(x: f32[1, 20, 20, 16], w: f32[3, 3, 16, 16]):
    y[n, h:20, v:20, o] = sum(
        where(0 <= h + r - 1 < 20 and 0 <= v + s - 1 < 20, x[n, h + r - 1, v + s - 1, c], 0) * w[r, s, c, o],
        (r, s, c))
    return y
"""
    padded = """
def conv(x: f32[1, 20, 20, 16], w: f32[3, 3, 16, 16]):
    p = pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y[n, h, v, o] = sum(p[n, h + r, v + s, c] * w[r, s, c, o], (r, s, c))
    return y
"""
    inputs = inputs_of(parse(inlined))
    np.testing.assert_array_equal(result(inlined, **inputs), result(padded, **inputs))


PRODUCTS = {
    "matrix": ("a: f64[40, 50], b: f64[50, 30]", "sum(a[i, k] * b[k, j], k)", lambda a, b: a @ b),
    "transposed": ("a: f64[50, 40], b: f64[30, 50]", "sum(a[k, i] * b[j, k], k)", lambda a, b: (b @ a).T),
    "batch": (
        "a: f64[6, 40, 50], b: f64[6, 50, 30]",
        "sum(a[b0, i, k] * b[b0, k, j], k)",
        lambda a, b: a @ b,
    ),
    "scaled": ("a: f64[40, 50], b: f64[50, 30]", "sum(-2 * a[i, k] * b[k, j], k)", lambda a, b: -2 * (a @ b)),
    "summed alone": (
        "a: f64[40, 9, 50], b: f64[50, 30]",
        "sum(a[i, l, k] * b[k, j], (k, l))",
        lambda a, b: a.sum(1) @ b,
    ),
    "outer": ("a: f64[40, 90], b: f64[30]", "sum(a[i, k] * b[j], k)", lambda a, b: np.outer(a.sum(1), b)),
    "three": (
        "a: f64[40, 50], b: f64[50, 30], c: f64[40, 30]",
        "sum(a[i, k] * b[k, j] * c[i, j], k)",
        lambda a, b, c: (a @ b) * c,
    ),
    "square": ("a: f64[60, 50]", "sum(a[i, k] * a[j, k], k)", lambda a: a @ a.T),
    "other order": (
        "a: f64[6, 40, 50], b: f64[50, 30]",
        "sum(a[t, i, k] * b[k, j], k)",
        lambda a, b: a @ b,
    ),
    "reversed": (
        "a: f64[40, 50], b: f64[50, 30]",
        "sum(a[i, 49 - k] * b[k, j], k)",
        lambda a, b: a[:, ::-1] @ b,
    ),
    "not a product": (
        "a: f64[40, 50], b: f64[50, 30]",
        "max(a[i, k] + b[k, j], k)",
        lambda a, b: (a[:, :, None] + b[None]).max(1),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    signature, expression, expected = PRODUCTS[name]
    text = f"def f({signature}):\n    return {expression}"
    inputs = inputs_of(parse(text))
    np.testing.assert_allclose(result(text, **inputs), expected(**inputs), rtol=1e-11, atol=1e-11)


def test_long_axes_are_cut_into_boxes() -> None:
    text = """
def f(x: f64[3, 200000]):
    return sum(x[i, k] * x[i, k], k), max(x[i, k], k), x[i, k] * 2, sum(x[i, k], i)
"""
    x = np.random.default_rng(1).standard_normal((3, 200_000))
    outs = list(evaluate(parse(text), {"x": x}).values())
    for found, wanted in zip(outs, [(x * x).sum(1), x.max(1), x * 2, x.sum(0)], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_specials_pass_as_in_numpy() -> None:
    x = np.array([[1.0, np.nan, -1.0], [np.inf, 0.0, -np.inf], [-0.0, 2.0, 1e30]], np.float32)
    text = """
def f(x: f32[3, 3]):
    a = max(x, axis=1)
    b = min(x, axis=0)
    return a, b, relu(x), sum(x, axis=1), 1 / x, log(x), sqrt(x), exp(x), erf(x), sigmoid(x), rsqrt(x)
"""
    with np.errstate(all="ignore"):
        v = x.astype(np.float64)
        expected = [
            v.max(1),
            v.min(0),
            np.maximum(v, 0),
            v.sum(1),
            1 / v,
            np.log(v),
            np.sqrt(v),
            np.exp(v),
            np.array(
                [[0.8427007929497149, np.nan, -0.8427007929497149], [1, 0, -1], [0, 0.9953222650189527, 1]]
            ),
            1 / (1 + np.exp(-v)),
            1 / np.sqrt(v),
        ]
    for found, wanted in zip(evaluate(parse(text), {"x": x}).values(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_the_type_of_the_stages_can_be_kept() -> None:
    text = "def f(x: f32[64, 64], y: f32[64, 64]):\n    return gelu(x @ y)"
    inputs = inputs_of(parse(text))
    (single,) = evaluate(parse(text), inputs, dtype=None).values()
    (double,) = evaluate(parse(text), inputs).values()
    assert single.dtype == np.float32 and double.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-4)


def test_inputs_may_be_strided_and_are_left_alone() -> None:
    x = np.arange(24.0).reshape(4, 6).T[::-1]
    before = x.copy()
    np.testing.assert_array_equal(result("def f(x: f64[6, 4]):\n    return x[i, j] * 2", x=x), before * 2)
    np.testing.assert_array_equal(x, before)


def test_wrong_inputs_are_named() -> None:
    p = parse("def f(x: f32[4]):\n    return x * 2")
    with pytest.raises(TunesmithError, match="input x is missing"):
        evaluate(p, {})
    with pytest.raises(TunesmithError, match=r"input x has shape \(5,\)"):
        evaluate(p, {"x": np.zeros(5)})


def test_scalars() -> None:
    text = "def f(x: f64[3], s: f64):\n    return sum(x) * s, sqrt(s), max(x[i], i)"
    outs = evaluate(parse(text), {"x": np.array([1.0, 2.0, 4.0]), "s": np.array(4.0)})
    assert [float(o) for o in outs.values()] == [28.0, 2.0, 4.0]
    assert all(isinstance(o, np.ndarray) and o.shape == () for o in outs.values())


def test_powers_to_one_exponent_are_those_of_c() -> None:
    p = parse("def f(x: f32[3], e: f32):\n    y[i] = pow(x[i], e)\n    return y")
    x = np.array([-np.inf, -0.0, 4.0], np.float32)
    np.testing.assert_array_equal(evaluate(p, {"x": x, "e": np.float32(0.5)})["y"], [np.inf, 0.0, 2.0])
