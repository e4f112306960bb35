"""What a peer is given, and what it gives."""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.frontend import OPERATORS

__all__ = [
    "CHANNELS_LAST",
    "Arrays",
    "Peer",
    "Spec",
    "capsules_as_images",
    "capsule_weights",
    "conv_weights",
    "spec_of",
]

Arrays = Mapping[str, np.ndarray]

CHANNELS_LAST = {
    "conv1d": 1,
    "conv2d": 2,
    "conv3d": 3,
    "conv2d_bn_relu": 2,
    "depthwise_conv2d": 2,
    "group_conv2d": 2,
    "conv2d_capsule": 2,
    "conv2d_transpose": 2,
    "max_pool2d": 2,
    "avg_pool2d": 2,
    "global_avg_pool": 2,
    "global_max_pool": 2,
}
"""Operators on images whose channels come last, with their spatial dimensions."""


@dataclass(frozen=True)
class Peer:
    """``call`` is what is timed; ``results`` calls once and gives the outputs in our order of dimensions,
    up to a reshape."""

    call: Callable[[], object]
    results: Callable[[], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Spec:
    """A named operator with its parameters: ``spec.name``, ``spec.k`` and so on, defaults included."""

    name: str
    parameters: Mapping[str, Any]

    def __getattr__(self, key: str) -> Any:
        try:
            return self.parameters[key]
        except KeyError:
            raise AttributeError(key) from None

    def get(self, key: str, default: Any) -> Any:
        return self.parameters.get(key, default)


def spec_of(text: str) -> Spec:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    signature = inspect.signature(OPERATORS[call.func.id])
    positional = [ast.literal_eval(a) for a in call.args]
    bound = signature.bind(*positional, **{k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg})
    bound.apply_defaults()
    return Spec(call.func.id, bound.arguments)


def conv_weights(spec: Spec, w: np.ndarray) -> tuple[np.ndarray, int]:
    """Weights as [co, ci / groups, window…], as libraries have them, and the number of groups."""
    match spec.name:
        case "depthwise_conv2d":
            if w.ndim != 3:
                raise NotImplementedError("several results a channel")
            return np.ascontiguousarray(w.transpose(2, 0, 1)[:, None]), w.shape[2]
        case "group_conv2d":
            shape = (spec.co, spec.ci // spec.groups, spec.k, spec.k)
            return np.ascontiguousarray(w.transpose(3, 4, 2, 0, 1).reshape(shape)), spec.groups
        case "conv2d_capsule":
            return capsule_weights(w), 1
        case "conv2d_nchw":
            return w, 1
        case "depthwise_conv2d_nchw":
            return np.ascontiguousarray(w[:, None]), w.shape[0]
        case _:
            return np.ascontiguousarray(np.moveaxis(np.moveaxis(w, -1, 0), -1, 1)), 1


def capsules_as_images(x: np.ndarray) -> np.ndarray:
    """x[n, h, w, i, q, c] as n*i images of q*c channels: a capsule convolution is one of those."""
    n, h, w, i, q, c = x.shape
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2, 4, 5).reshape(n * i, h, w, q * c))


def capsule_weights(w: np.ndarray) -> np.ndarray:
    """w[k, k, q, j, ci, co] as [j*co, q*ci, k, k]."""
    k, _, q, j, ci, co = w.shape
    return np.ascontiguousarray(w.transpose(3, 5, 2, 4, 0, 1).reshape(j * co, q * ci, k, k))
