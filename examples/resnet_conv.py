"""A 3×3 convolution of ResNet's first stage, 56×56, 64 → 64 channels, with bias and ReLU fused.

    tunesmith tune examples/resnet_conv.py --trials 64

`pad` is part of the program, not a copy in memory: the search decides how the edges are handled.
"""
# ruff: noqa: F821

from __future__ import annotations

import tunesmith


@tunesmith.kernel
def resnet_conv(x: f32[1, 56, 56, 64], w: const[f32[3, 3, 64, 64]], b: const[f32[64]]):
    p = pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y[n, h, v, o] = sum(p[n, h + r, v + s, c] * w[r, s, c, o], (r, s, c))
    return relu(y + b)
