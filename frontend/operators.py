"""Named operators: from sizes to a program in the expression language.

Each function returns text, so that what an operator means can be read, changed and posted. Activations
are row-major with channels last unless the name says nchw; weights and the like are declared ``const``.
``dtype`` is f32 or f64.
"""

from collections.abc import Callable, Mapping

from tunesmith.frontend.channels_first import (
    avg_pool2d_nchw,
    conv2d_nchw,
    depthwise_conv2d_nchw,
    global_avg_pool_nchw,
    max_pool2d_nchw,
)
from tunesmith.frontend.convolutions import conv1d, conv2d, conv3d, depthwise_conv2d, group_conv2d
from tunesmith.frontend.families import conv2d_bn_relu, conv2d_capsule, conv2d_transpose
from tunesmith.frontend.pools import avg_pool2d, global_avg_pool, global_max_pool, max_pool2d
from tunesmith.frontend.products import (
    attention,
    batch_matmul,
    dense,
    gemv,
    matmul,
    transpose_batch_matmul,
)
from tunesmith.frontend.rowwise import (
    activation,
    layer_norm,
    mean,
    moments,
    norm,
    relu_muladd,
    rms_norm,
    softmax,
    sumsq,
    transpose,
    variance,
)

__all__ = ["OPERATORS"]

OPERATORS: Mapping[str, Callable[..., str]] = {
    f.__name__: f
    for f in (
        matmul,
        batch_matmul,
        gemv,
        dense,
        transpose_batch_matmul,
        attention,
        conv1d,
        conv2d,
        conv3d,
        depthwise_conv2d,
        group_conv2d,
        conv2d_nchw,
        depthwise_conv2d_nchw,
        conv2d_bn_relu,
        conv2d_transpose,
        conv2d_capsule,
        max_pool2d,
        avg_pool2d,
        max_pool2d_nchw,
        avg_pool2d_nchw,
        global_max_pool,
        global_avg_pool,
        global_avg_pool_nchw,
        softmax,
        layer_norm,
        rms_norm,
        mean,
        variance,
        moments,
        sumsq,
        norm,
        activation,
        relu_muladd,
        transpose,
    )
}
