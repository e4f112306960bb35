"""NumPy, where one or two of its calls do the work."""

from collections.abc import Callable

import numpy as np

from peers.spec import Arrays, Peer, Spec

__all__ = ["numpy"]


def numpy(spec: Spec, arrays: Arrays) -> Peer:
    call = _call(spec, arrays)

    def results() -> tuple[np.ndarray, ...]:
        out = call()
        return out if isinstance(out, tuple) else (out,)

    return Peer(call, results)


def _call(spec: Spec, a: Arrays) -> "Callable[[], np.ndarray | tuple[np.ndarray, ...]]":
    match spec.name:
        case "matmul" if not (spec.bias or spec.residual or spec.act):
            x, y = a["a"].T if spec.ta else a["a"], a["b"].T if spec.tb else a["b"]
            out = np.empty((spec.m, spec.n), np.float32)
            return lambda: np.matmul(x, y, out=out)
        case "batch_matmul":
            x = a["x"].swapaxes(1, 2) if spec.ta else a["x"]
            y = a["y"].swapaxes(1, 2) if spec.tb else a["y"]
            return lambda: np.matmul(x, y)
        case "gemv":
            m = a["a"].T if spec.ta else a["a"]
            return lambda: m @ a["x"]
        case "norm":
            return lambda: np.sqrt(np.einsum("bij,bij->b", a["x"], a["x"]))
        case "softmax":
            return lambda: _softmax(a["x"])
        case "moments":
            return lambda: (a["x"].mean(1), a["x"].var(1))
        case "global_avg_pool":
            return lambda: a["x"].mean((1, 2))
        case _:
            raise NotImplementedError(spec.name)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
