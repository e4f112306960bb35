"""PyTorch: eager, in the better of its two layouts, and compiled with constant weights."""

import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from peers.spec import CHANNELS_LAST, Arrays, Peer, Spec, capsules_as_images, conv_weights

__all__ = ["compiled", "eager"]

COMPILE_S = 120  # for one workload; one that takes longer goes without
TRIED = 5  # calls by which a layout is chosen


def eager(spec: Spec, arrays: Arrays) -> Peer:
    return _better(spec, arrays, lambda module: module)


def compiled(spec: Spec, arrays: Arrays) -> Peer:
    """What ``torch.compile`` makes of it, weights frozen. NotImplementedError where that fails."""
    import torch
    import torch._inductor.config as config

    config.freezing = True
    config.compile_threads = 1

    def compile_it(module: Any) -> Any:
        torch._dynamo.reset()
        return torch.compile(module, dynamic=False, fullgraph=True)

    try:
        with _at_most(COMPILE_S):
            return _better(spec, arrays, compile_it)
    except (TimeoutError, torch._dynamo.exc.TorchDynamoException) as e:
        raise NotImplementedError(f"{spec.name}: {type(e).__name__}") from None


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _better(spec: Spec, arrays: Arrays, prepared: Callable[[Any], Any]) -> Peer:
    """The faster of channels last and channels first; of one where there are no channels."""
    is_image = spec.name in CHANNELS_LAST or spec.name.endswith("_nchw")
    peers = [_peer(spec, arrays, last, prepared) for last in ((True, False) if is_image else (False,))]
    return min(peers, key=lambda p: _seconds(p.call)) if len(peers) > 1 else peers[0]


def _seconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(TRIED):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _peer(spec: Spec, arrays: Arrays, last: bool, prepared: Callable[[Any], Any]) -> Peer:
    import torch

    torch.set_num_threads(1)
    function, weights, inputs = _case(spec, arrays, last)

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in weights.items():
                self.register_buffer(name, value)

        def forward(self, *given: Any) -> Any:
            return function(dict(self.named_buffers(recurse=False)), *given)

    module = prepared(Module().eval())

    def call() -> Any:
        with torch.inference_mode():
            return module(*inputs)

    def results() -> Sequence[np.ndarray]:
        out = call()
        return [_ours(spec, y) for y in (out if isinstance(out, tuple) else (out,))]

    results()
    return Peer(call, results)


def _ours(spec: Spec, y: Any) -> np.ndarray:
    """A result with its dimensions in our order."""
    rank = CHANNELS_LAST.get(spec.name)
    if rank is None or y.ndim == 2:
        out: np.ndarray = y.numpy()
        return out
    out = y.movedim(1, -1).numpy()
    if spec.name == "conv2d_capsule":
        n, size = spec.n, spec.size
        out = out.reshape(n, size, *out.shape[1:3], size, spec.co).transpose(0, 2, 3, 1, 4, 5)
    return out


Case = tuple[Callable[..., Any], dict[str, Any], list[Any]]
"""A function of the weights and of the inputs, and both."""


def _case(spec: Spec, a: Arrays, last: bool) -> Case:
    if spec.name in CHANNELS_LAST or spec.name.endswith("_nchw"):
        return _image(spec, a, last)
    return _plain(spec, a)


def _image(spec: Spec, a: Arrays, last: bool) -> Case:
    import torch
    import torch.nn.functional as F

    rank = CHANNELS_LAST.get(spec.name, 2)
    formats = {2: torch.channels_last, 3: torch.channels_last_3d}
    layout = formats.get(rank, torch.contiguous_format) if last else torch.contiguous_format

    def tensor(array: np.ndarray) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).contiguous(memory_format=layout)

    def image(array: np.ndarray) -> Any:
        array = capsules_as_images(array) if spec.name == "conv2d_capsule" else array
        return tensor(np.moveaxis(array, -1, 1) if spec.name in CHANNELS_LAST else array)

    x = [image(a["x"])]
    window = {"stride": spec.get("stride", 1), "padding": spec.get("pad", 0)}
    match spec.name:
        case "max_pool2d" | "max_pool2d_nchw":
            window["stride"] = spec.stride or spec.k
            return (lambda w, x: F.max_pool2d(x, spec.k, **window)), {}, x
        case "avg_pool2d" | "avg_pool2d_nchw":
            window["stride"] = spec.stride or spec.k
            return (lambda w, x: F.avg_pool2d(x, spec.k, **window)), {}, x
        case "global_avg_pool" | "global_avg_pool_nchw":
            return (lambda w, x: x.mean((2, 3))), {}, x
        case "global_max_pool":
            return (lambda w, x: x.amax((2, 3))), {}, x
        case "conv2d_transpose":
            weights = {"w": tensor(a["w"].transpose(2, 3, 0, 1))}
            return (lambda w, x: F.conv_transpose2d(x, w["w"], **window)), weights, x
    kernel, groups = conv_weights(spec, a["w"])
    bias = a["b"].reshape(-1) if "b" in a else None
    if spec.name == "conv2d_bn_relu":  # folded into the weights, as everybody does
        kernel = kernel * a["scale"][:, None, None, None]
        bias = a["b"] * a["scale"] + a["offset"]
    weights = {"w": tensor(kernel)} | ({} if bias is None else {"b": torch.from_numpy(bias)})
    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    act = _activation("relu" if spec.name == "conv2d_bn_relu" else spec.get("act", None))
    inputs = x + ([image(a["res"])] if "res" in a else [])
    how = {**window, "dilation": spec.get("dilation", 1), "groups": groups}

    def run(w: dict[str, Any], x: Any, *res: Any) -> Any:
        y = conv(x, w["w"], w.get("b"), **how)
        return act(y + res[0] if res else y)

    return run, weights, inputs


def _plain(spec: Spec, a: Arrays) -> Case:
    import torch
    import torch.nn.functional as F

    t = {k: torch.from_numpy(v) for k, v in a.items()}
    act = _activation(spec.get("act", None))
    match spec.name:
        case "matmul":

            def product(w: dict[str, Any], x: Any, y: Any, *others: Any) -> Any:
                z = torch.matmul(x.T if spec.ta else x, y.T if spec.tb else y)
                for o in others:
                    z = z + o
                return act(z)

            return product, {}, [t[n] for n in ("a", "b", "bias", "res") if n in t]
        case "batch_matmul":
            flip = lambda x, whether: x.transpose(1, 2) if whether else x  # noqa: E731
            return (lambda w, x, y: torch.bmm(flip(x, spec.ta), flip(y, spec.tb))), {}, [t["x"], t["y"]]
        case "gemv":
            return (lambda w, m, x: torch.mv(m.T if spec.ta else m, x)), {}, [t["a"], t["x"]]
        case "transpose_batch_matmul":
            scores = lambda w, q, k: torch.matmul(q.permute(0, 2, 1, 3), k.permute(0, 2, 3, 1))  # noqa: E731
            return scores, {}, [t["q"], t["k"]]
        case "dense":
            weights = {n: t[n] for n in ("w", "b") if n in t}
            if "res" in t:
                dense = lambda w, x, r: act(F.linear(x, w["w"], w.get("b")) + r)  # noqa: E731
                return dense, weights, [t["x"], t["res"]]
            return (lambda w, x: act(F.linear(x, w["w"], w.get("b")))), weights, [t["x"]]
        case "softmax":
            return (lambda w, x: torch.softmax(x, -1)), {}, [t["x"]]
        case "layer_norm":
            weights = {n: t[n] for n in ("gamma", "beta")}
            norm = lambda w, x: F.layer_norm(x, x.shape[-1:], w["gamma"], w["beta"], spec.eps)  # noqa: E731
            return norm, weights, [t["x"]]
        case "norm":
            return (lambda w, x: torch.linalg.vector_norm(x, dim=(1, 2))), {}, [t["x"]]
        case "moments":
            return (lambda w, x: torch.var_mean(x, -1, correction=0)[::-1]), {}, [t["x"]]
        case "activation":
            weights = {n: t[n] for n in ("b",) if n in t}
            return (lambda w, x: act(x + w["b"] if w else x)), weights, [t["x"]]
        case "attention":
            return _attention, {}, [t["q"], t["k"], t["v"]]
    raise NotImplementedError(spec.name)


def _attention(w: dict[str, Any], q: Any, k: Any, v: Any) -> Any:
    import torch

    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5, -1), v)


def _activation(name: str | None) -> Callable[[Any], Any]:
    import torch
    import torch.nn.functional as F

    known: dict[str | None, Callable[[Any], Any]] = {
        None: lambda y: y,
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
        "silu": F.silu,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }
    return known[name]
