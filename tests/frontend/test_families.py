"""Operators of the further families against their definitions, written out in NumPy."""

import numpy as np
import pytest

from tunesmith.frontend import operator
from tunesmith.ir import ProgramError, evaluate


def inputs_of(text: str) -> tuple[list[np.ndarray], np.ndarray]:
    program = operator(text)
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.standard_normal(t.shape) for t in program.inputs}
    return list(arrays.values()), evaluate(program, arrays)[program.outputs[0]]


def direct_conv(x: np.ndarray, w: np.ndarray, stride: int, pad: int) -> np.ndarray:
    p = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(p, w.shape[:2], axis=(1, 2))
    return np.einsum("nhvcrs,rsco->nhvo", windows[:, ::stride, ::stride], w)


@pytest.mark.parametrize(("k", "stride", "pad"), [(4, 2, 1), (2, 2, 0), (6, 2, 2), (3, 3, 0), (9, 3, 3)])
def test_transposed_convolution_skips_only_zeros(k: int, stride: int, pad: int) -> None:
    (x, w), got = inputs_of(f"conv2d_transpose(n=2, h=3, w=4, ci=5, co=2, k={k}, stride={stride}, pad={pad})")
    spread = np.zeros((2, 3 * stride + k, 4 * stride + k, 2))
    for i in range(3):
        for j in range(4):
            spread[:, i * stride : i * stride + k, j * stride : j * stride + k] += np.einsum(
                "nc,rsco->nrso", x[:, i, j], w
            )
    expected = spread[:, pad : pad + 3 * stride, pad : pad + 4 * stride]
    np.testing.assert_allclose(got.reshape(2, 3 * stride, 4 * stride, 2), expected, atol=1e-12)


def test_transposed_convolution_refuses_other_shapes() -> None:
    for text in ("conv2d_transpose(k=3, stride=2, pad=1)", "conv2d_transpose(k=4, stride=2, pad=0)"):
        with pytest.raises(ProgramError, match="multiple of stride"):
            operator(text)


def test_capsules_are_matrix_products() -> None:
    (x, w), got = inputs_of("conv2d_capsule(h=5, w=4, ci=3, co=2, k=3, stride=2, pad=1, size=4)")
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)))
    expected = np.zeros(got.shape)
    for h in range(got.shape[1]):
        for v in range(got.shape[2]):
            window = p[:, 2 * h : 2 * h + 3, 2 * v : 2 * v + 3]
            expected[:, h, v] = np.einsum("nrsiqc,rsqjco->nijo", window, w)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_fused_normalisation() -> None:
    (x, w, b, scale, offset), got = inputs_of("conv2d_bn_relu(h=6, w=5, ci=3, co=4, k=3, stride=2, pad=1)")
    expected = np.maximum((direct_conv(x, w, 2, 1) + b) * scale + offset, 0)
    np.testing.assert_allclose(got, expected, atol=1e-12)
