"""The first half of a BERT-base feed-forward layer on 128 tokens: dense 768 → 3072, bias and GELU, fused.

    tunesmith tune examples/bert_ffn.py --trials 64

The function's body is Tunesmith's expression language. It is read and never run, so its names need no
imports. `const` marks the weights: their values are known before the run, so they are packed once and kept.
"""
# ruff: noqa: F821

from __future__ import annotations

import tunesmith


@tunesmith.kernel
def bert_ffn(x: f32[128, 768], w: const[f32[3072, 768]], b: const[f32[3072]]):
    y[i, o] = sum(x[i, k] * w[o, k], k)
    return gelu(y[i, o] + b[o])


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, 768), dtype=np.float32)
    w = rng.standard_normal((3072, 768), dtype=np.float32)
    b = rng.standard_normal(3072, dtype=np.float32)
    layer = tunesmith.load(bert_ffn)  # the best known schedule for this machine, or a good guess
    print(layer(x, w, b).shape)
