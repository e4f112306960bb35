"""Softmax over the last axis of 1536 rows of 128: the attention weights of 12 heads on 128 tokens.

    tunesmith tune examples/softmax.py --trials 64

Written out in index form, it is three passes over each row; the search keeps the row in cache between them.
`return softmax(x)` is the same program with the same hash, so both find the same records.
"""
# ruff: noqa: F821

from __future__ import annotations

import tunesmith


@tunesmith.kernel
def softmax_rows(x: f32[1536, 128]):
    m[i] = max(x[i, j], j)
    e[i, j] = exp(x[i, j] - m[i])
    s[i] = sum(e[i, j], j)
    return e[i, j] / s[i]
