"""Each named operator against NumPy written by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tunesmith.frontend import OPERATORS, families, operator, operator_text
from tunesmith.ir import DType, evaluate, format_program, parse, verify_program, workload_hash

Array = NDArray[Any]


def windows(x: Array, k: int, stride: int = 1, dilation: int = 1, dims: int = 2) -> Array:
    """Windows of the ``dims`` dimensions before the last: [n, positions…, window…, c]."""
    for d in range(dims):
        size = (x.shape[1 + d] - dilation * (k - 1) - 1) // stride + 1
        index = stride * np.arange(size)[:, None] + dilation * np.arange(k)
        x = np.take(x, index, axis=1 + d)
        x = np.moveaxis(x, 2 + d, -2)
    return x


def padded(x: Array, pad: int, value: float = 0.0) -> Array:
    widths = [(0, 0), *[(pad, pad)] * (x.ndim - 2), (0, 0)]
    return np.pad(x, widths, constant_values=value)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def last(x: Array) -> Array:
    return np.moveaxis(x, 1, -1)


def first(x: Array) -> Array:
    return np.moveaxis(x, -1, 1)


def conv(x: Array, w: Array, pad: int = 0, **how: int) -> Array:
    dims = x.ndim - 2
    return np.tensordot(windows(padded(x, pad), w.shape[0], dims=dims, **how), w, dims + 1)


def depthwise(x: Array, w: Array, b: Array) -> Array:
    return np.einsum("nhvrsc,rsc->nhvc", windows(padded(x, 1), 3, 2), w) + b


def grouped(x: Array, w: Array) -> Array:
    view = windows(x, 3)
    split = view.reshape(*view.shape[:-1], 2, 3)
    return np.einsum("nhvrsgc,rscgo->nhvgo", split, w)


def layer_norm(x: Array, gamma: Array, beta: Array) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta


CASES: dict[str, Callable[..., Array | tuple[Array, ...]]] = {
    "matmul(5, 6, 7)": lambda a, b: a @ b,
    "matmul(5, 6, 7, ta=True)": lambda a, b: a.T @ b,
    "matmul(5, 6, 7, tb=True, const=True)": lambda a, b: a @ b.T,
    "matmul(5, 6, 7, ta=True, tb=True, bias=True, residual=True, act='relu')": lambda a, b, bias, res: (
        np.maximum(a.T @ b.T + bias + res, 0)
    ),
    "batch_matmul(b=3, m=5, n=6, k=7)": lambda x, y: x @ y,
    "batch_matmul(b=3, m=5, n=6, k=7, ta=True)": lambda x, y: x.transpose(0, 2, 1) @ y,
    "batch_matmul(b=3, m=5, n=6, k=7, tb=True)": lambda x, y: x @ y.transpose(0, 2, 1),
    "batch_matmul(b=3, m=5, n=6, k=7, ta=True, tb=True)": lambda x, y: (y @ x).transpose(0, 2, 1),
    "transpose_batch_matmul(batch=2, seq=5, heads=3, dim=4)": lambda q, k: np.einsum("bihd,bjhd->bhij", q, k),
    "gemv(m=5, k=7)": lambda a, x: a @ x,
    "gemv(m=5, k=7, ta=True, const=True)": lambda a, x: x @ a,
    "dense(m=5, n=6, k=7)": lambda x, w, b: x @ w.T + b,
    "dense(m=5, n=6, k=7, bias=False, act='relu')": lambda x, w: np.maximum(x @ w.T, 0),
    "dense(m=5, n=6, k=7, act='sigmoid', const=False)": lambda x, w, b: 1 / (1 + np.exp(-(x @ w.T + b))),
    "dense(m=5, n=6, k=7, act='tanh', residual=True)": lambda x, w, b, res: np.tanh(x @ w.T + b + res),
    "conv1d(l=9, ci=4, co=5, pad=1, stride=2)": lambda x, w: conv(x, w, 1, stride=2),
    "conv1d(n=2, l=9, ci=4, co=5, k=2, dilation=3, residual=True)": lambda x, w, res: (
        conv(x, w, dilation=3) + res
    ),
    "conv2d(n=2, h=7, w=6, ci=4, co=5)": lambda x, w: conv(x, w),
    "conv2d(h=7, w=6, ci=4, co=5, k=1)": lambda x, w: conv(x, w),
    "conv2d(h=9, w=8, ci=4, co=5, stride=2, pad=1, dilation=2, bias=True, act='relu')": lambda x, w, b: (
        np.maximum(conv(x, w, 1, stride=2, dilation=2) + b, 0)
    ),
    "conv2d(n=2, h=7, w=6, ci=4, co=5, pad=1, bias=True, residual=True, act='relu')": lambda x, w, b, res: (
        np.maximum(conv(x, w, 1) + b + res, 0)
    ),
    "conv2d_nchw(n=2, ci=3, h=6, w=5, co=4, k=3, pad=1, bias=True, act='relu')": lambda x, w, b: first(
        np.maximum(conv(last(x), w.transpose(2, 3, 1, 0), 1) + b, 0)
    ),
    "conv2d_nchw(ci=3, h=9, w=8, co=4, stride=2, dilation=2, residual=True)": lambda x, w, res: (
        first(conv(last(x), w.transpose(2, 3, 1, 0), stride=2, dilation=2)) + res
    ),
    "conv3d(d=4, h=5, w=6, ci=2, co=3, k=2, residual=True)": lambda x, w, res: conv(x, w) + res,
    "conv3d(d=4, h=5, w=6, ci=2, co=3, k=2, pad=1)": lambda x, w: conv(x, w, 1),
    "depthwise_conv2d(h=7, w=8, c=3, stride=2, pad=1, bias=True)": depthwise,
    "depthwise_conv2d(h=7, w=8, c=3, pad=1, factor=2)": lambda x, w: np.einsum(
        "nhvrsc,rsco->nhvco", windows(padded(x, 1), 3), w
    ),
    "depthwise_conv2d_nchw(c=3, h=7, w=8, stride=2, pad=1, bias=True)": lambda x, w, b: first(
        depthwise(last(x), w.transpose(1, 2, 0), b)
    ),
    "group_conv2d(h=5, w=6, ci=6, co=8, groups=2)": grouped,
    "max_pool2d(h=8, w=9, c=3)": lambda x: windows(x, 2, 2).max((3, 4)),
    "max_pool2d(h=8, w=9, c=3, k=3, stride=1, pad=1)": lambda x: windows(padded(x, 1, -np.inf), 3).max(
        (3, 4)
    ),
    "avg_pool2d(h=8, w=9, c=3, k=3, stride=2, pad=1)": lambda x: windows(padded(x, 1), 3, 2).mean((3, 4)),
    "max_pool2d_nchw(c=3, h=8, w=9, k=3, stride=2, pad=1)": lambda x: first(
        windows(padded(last(x), 1, -np.inf), 3, 2).max((3, 4))
    ),
    "avg_pool2d_nchw(c=3, h=8, w=9, k=3, stride=1)": lambda x: first(windows(last(x), 3).mean((3, 4))),
    "global_max_pool(n=2, h=4, w=3, c=5)": lambda x: x.max((1, 2)),
    "global_avg_pool(n=2, h=4, w=3, c=5)": lambda x: x.mean((1, 2)),
    "global_avg_pool_nchw(n=2, c=5, h=4, w=3)": lambda x: x.mean((2, 3)),
    "softmax(5, 7)": softmax,
    "layer_norm(5, 7)": layer_norm,
    "rms_norm(m=5, n=7, eps=1e-6)": lambda x, gamma: (
        x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma
    ),
    "mean(5, 7)": lambda x: x.mean(1),
    "variance(5, 7)": lambda x: x.var(1),
    "moments(5, 7)": lambda x: (x.mean(1), x.var(1)),
    "sumsq(5, 7)": lambda x: (x * x).sum(1),
    "norm(2, 5, 7)": lambda x: np.sqrt((x * x).sum((1, 2))),
    "relu_muladd(9)": lambda a, b, c: np.maximum(a * b + c, 0),
    "activation(5, 7, act='silu', bias=True, residual=True)": lambda x, b, res: (
        (x + b + res) / (1 + np.exp(-(x + b + res)))
    ),
    "transpose(5, 7)": lambda x: x.T,
    "attention(h=2, m=5, d=4)": lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) / 2) @ v,
    "attention(h=2, m=3, d=4, kv=7)": lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) / 2) @ v,
}


@pytest.mark.parametrize("text", CASES)
def test_equals_numpy(text: str) -> None:
    p = operator(text)
    verify_program(p)
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.standard_normal(t.shape) for t in p.inputs}
    expected = CASES[text](**inputs)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for found, right in zip(evaluate(p, inputs).values(), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-12)


def test_every_operator_has_a_case() -> None:
    """Those of ``frontend.families`` have theirs in test_families."""
    assert {text.partition("(")[0] for text in CASES} == set(OPERATORS) - set(families.__all__)


@pytest.mark.parametrize("name", OPERATORS)
def test_defaults_types_and_text(name: str) -> None:
    single, double = operator(name), operator(f"{name}(dtype='f64')")
    assert {t.dtype for t in single.tensors.values()} == {DType.F32}
    assert {t.dtype for t in double.tensors.values()} == {DType.F64}
    assert single.name == name
    assert parse(operator_text(name)) == single
    assert workload_hash(parse(format_program(single))) == workload_hash(single)
    assert OPERATORS[name].__doc__


def test_a_plain_operator_is_one_stage() -> None:
    for text in ("matmul(ta=True)", "conv2d(pad=0)", "dense(bias=False)", "sumsq", "transpose", "max_pool2d"):
        assert len(operator(text).stages) == 1


def test_weights_are_constant_unless_said_otherwise() -> None:
    assert [t.const for t in operator("conv2d(bias=True)").inputs] == [False, True, True]
    assert not any(t.const for t in operator("conv2d(bias=True, const=False)").inputs)
