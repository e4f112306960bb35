"""Tasks to learn from: named operators of all families, with shapes as networks have them.

A stream of tasks is a function of its seed: task i is the same however many are asked for. Sizes are mostly
those of known networks (ResNet, MobileNet, EfficientNet, U-Net, BERT, GPT, ViT), at times odd or prime.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tunesmith.frontend import operator
from tunesmith.ir import Program, ProgramError, TunesmithError, flops, min_bytes

__all__ = ["FAMILIES", "Task", "chosen_families", "draw_tasks", "estimate_s"]

LEAST_S, MOST_S = 5e-6, 5e-3  # of one call: below, timing costs more than it teaches; above, it is slow
_GFLOPS, _GBS = 50.0, 15.0  # what a core does at ease: tasks must not depend on the machine's measured peaks
_TRIES = 1000

T = TypeVar("T")

_CHANNELS = (3, 8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 480, 512, 576, 640,
             672, 768, 832, 960, 1024)  # fmt: skip
_IMAGES = (7, 8, 10, 14, 16, 19, 20, 26, 28, 32, 38, 40, 52, 56, 64, 75, 80, 112, 128, 150, 160, 192, 224)
_WIDTHS = (64, 80, 96, 128, 160, 192, 256, 312, 320, 384, 512, 640, 768, 1000, 1024, 1280, 1536, 2048, 2304,
           3072, 4096)  # fmt: skip
_SEQUENCES = (1, 16, 32, 49, 64, 77, 96, 128, 196, 197, 256, 384, 512, 577, 1024)
_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")


@dataclass(frozen=True)
class Task:
    """``program`` is named after its family, by which training holds tasks out."""

    index: int
    family: str
    operator: str
    program: Program


class _Draw:
    """Sizes and choices from one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def pick(self, values: Sequence[T]) -> T:
        return values[int(self._rng.integers(len(values)))]

    def act(self) -> str | None:
        return self.pick(_ACTIVATIONS) if self.chance(0.6) else None

    def size(self, usual: Sequence[int], least: int, most: int) -> int:
        """Mostly a usual one; else a multiple of 8, or any, small ones as likely as large ones."""
        if self.chance(0.85):
            return self.pick([v for v in usual if least <= v <= most])
        size = round(float(np.exp(self._rng.uniform(np.log(least), np.log(most)))))
        return max(8, size // 8 * 8) if self.chance(0.4) and most >= 8 else size

    def channels(self, most: int = 1024, least: int = 8) -> int:
        return self.size(_CHANNELS, least, most)

    def image(self, most: int = 224) -> tuple[int, int]:
        h = self.size(_IMAGES, 5, most)
        return h, self.size(_IMAGES, 5, most) if self.chance(0.15) else h

    def width(self, least: int = 64, most: int = 4096) -> int:
        return self.size(_WIDTHS, least, most)

    def sequence(self) -> int:
        return self.size(_SEQUENCES, 1, 1024)

    def batch(self) -> int:
        return 1 if self.chance(0.75) else self.pick((2, 4, 8, 16))


def _call(name: str, /, **arguments: Any) -> str:
    return f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"


def _window(d: _Draw, sizes: Sequence[int] = (1, 3, 3, 3, 3, 5, 7), dilated: bool = False) -> dict[str, Any]:
    """Kernel, stride, padding and dilation, mostly such that positions stay what they are."""
    k = d.pick(sizes)
    dilation = d.pick((2, 2, 2, 3, 4)) if dilated else 1
    stride = 2 if d.chance(0.2) else 1
    pad = dilation * (k // 2) if d.chance(0.85) else 0
    return {"k": k, "stride": stride, "pad": pad} | ({"dilation": dilation} if dilated else {})


def _end(d: _Draw, residual: bool = True) -> dict[str, Any]:
    """What is done to the result: in half of the cases nothing."""
    if d.chance(0.5):
        return {}
    with_residual = {"residual": d.chance(0.3)} if residual else {}
    return {"bias": d.chance(0.8), "act": d.act(), **with_residual}


def _matmul(d: _Draw) -> str:
    free = {"ta": d.chance(0.2), "tb": d.chance(0.3), "const": d.chance(0.3)}
    dtype = "f64" if d.chance(0.1) else "f32"
    return _call("matmul", m=d.sequence(), n=d.width(16), k=d.width(16), **free, **_end(d), dtype=dtype)


def _dense(d: _Draw) -> str:
    return _call("dense", m=d.sequence(), n=d.width(16), k=d.width(), **_end(d))


def _batch_matmul(d: _Draw) -> str:
    free = {"ta": d.chance(0.25), "tb": d.chance(0.4)}
    return _call("batch_matmul", b=_heads(d), m=d.sequence(), n=d.sequence(), k=_head_size(d), **free)


def _heads(d: _Draw) -> int:
    return d.pick((1, 2, 3, 4, 6, 8, 12, 12, 16)) * (1 if d.chance(0.85) else 2)


def _head_size(d: _Draw) -> int:
    return d.size((32, 40, 48, 64, 64, 64, 80, 96, 128), 16, 160)


def _gemv(d: _Draw) -> str:
    free = {"ta": d.chance(0.4), "const": d.chance(0.5)}
    return _call("gemv", m=d.width(), k=d.width(), **free)


def _scores(d: _Draw) -> str:
    return _call(
        "transpose_batch_matmul", batch=d.batch(), seq=d.sequence(), heads=_heads(d), dim=_head_size(d)
    )


def _attention(d: _Draw) -> str:
    m = d.sequence()
    kv = {"kv": d.sequence()} if d.chance(0.3) else {}
    return _call("attention", h=_heads(d), m=m, d=_head_size(d), **kv)


def _conv1d(d: _Draw) -> str:
    length = d.size((32, 64, 100, 128, 256, 400, 512, 1000, 1500, 3000), 16, 4096)
    channels = {"ci": d.channels(), "co": d.channels()}
    return _call("conv1d", n=d.batch(), l=length, **channels, **_window(d), **_end(d))


def _conv2d(d: _Draw) -> str:
    h, w = d.image()
    ci = 3 if d.chance(0.08) else d.channels()
    return _call("conv2d", n=d.batch(), h=h, w=w, ci=ci, co=d.channels(), **_window(d), **_end(d))


def _conv2d_nchw(d: _Draw) -> str:
    h, w = d.image()
    ci = 3 if d.chance(0.08) else d.channels()
    return _call("conv2d_nchw", n=d.batch(), ci=ci, h=h, w=w, co=d.channels(), **_window(d), **_end(d))


def _conv3d(d: _Draw) -> str:
    h, w = d.image(112)
    sizes = {"d": d.pick((4, 8, 8, 16, 5)), "h": h, "w": w}
    channels = {"ci": d.channels(256, 3), "co": d.channels(256)}
    return _call("conv3d", n=1, **sizes, **channels, **_window(d), **_end(d))


def _grouped(d: _Draw) -> str:
    h, w = d.image()
    groups = d.pick((2, 4, 4, 8, 16, 32))
    each = {"ci": groups * d.channels(128, 4), "co": groups * d.channels(128, 4)}
    return _call("group_conv2d", n=d.batch(), h=h, w=w, **each, groups=groups, **_window(d), **_end(d, False))


def _dilated(d: _Draw) -> str:
    h, w = d.image()
    channels = {"ci": d.channels(least=3), "co": d.channels()}
    window = _window(d, (3, 3, 5), dilated=True)
    return _call("conv2d", n=d.batch(), h=h, w=w, **channels, **window, **_end(d))


def _depthwise(d: _Draw) -> str:
    h, w = d.image()
    window = _window(d, (3, 3, 3, 5, 7))
    factor = {"factor": 2} if d.chance(0.1) else {}
    return _call(
        "depthwise_conv2d", n=d.batch(), h=h, w=w, c=d.channels(), **window, **_end(d, False), **factor
    )


def _depthwise_nchw(d: _Draw) -> str:
    h, w = d.image()
    window = _window(d, (3, 3, 3, 5, 7))
    return _call("depthwise_conv2d_nchw", n=d.batch(), c=d.channels(), h=h, w=w, **window, **_end(d, False))


def _transposed(d: _Draw) -> str:
    h, w = d.image(64)
    k, stride, pad = d.pick(((4, 2, 1), (4, 2, 1), (2, 2, 0), (6, 2, 2), (3, 3, 0)))
    channels = {"ci": d.channels(512), "co": d.channels(256, 3)}
    return _call("conv2d_transpose", n=d.batch(), h=h, w=w, **channels, k=k, stride=stride, pad=pad)


def _capsule(d: _Draw) -> str:
    h, w = d.image(32)
    channels = {"ci": d.channels(64, 4), "co": d.channels(64, 4)}
    window = {"k": d.pick((1, 3, 3, 5)), "stride": d.pick((1, 1, 2)), "pad": d.pick((0, 1))}
    return _call("conv2d_capsule", n=d.batch(), h=h, w=w, **channels, **window, size=d.pick((2, 4, 4, 4)))


def _normalised(d: _Draw) -> str:
    h, w = d.image()
    k = d.pick((1, 3, 3, 3, 5, 7))
    channels = {"ci": d.channels(least=3), "co": d.channels()}
    window = {"k": k, "stride": 2 if d.chance(0.2) else 1, "pad": k // 2}
    return _call("conv2d_bn_relu", n=d.batch(), h=h, w=w, **channels, **window)


def _rows(d: _Draw) -> dict[str, Any]:
    return {"m": d.batch() * d.sequence(), "n": d.width(32)}


def _softmax(d: _Draw) -> str:
    return _call("softmax", m=_heads(d) * d.sequence(), n=d.size(_SEQUENCES, 8, 4096))


def _norm(d: _Draw) -> str:
    return _call("norm", b=d.batch(), m=d.width(32), n=d.width(32))


def _layer_norm(d: _Draw) -> str:
    return _call("rms_norm" if d.chance(0.35) else "layer_norm", **_rows(d))


def _reduction(d: _Draw) -> str:
    if d.chance(0.3):
        h, w = d.image(56)
        name = d.pick(("global_avg_pool", "global_max_pool", "global_avg_pool_nchw"))
        return _call(name, n=d.batch(), h=h, w=w, c=d.channels(2048))
    return _call(d.pick(("mean", "variance", "moments", "sumsq")), **_rows(d))


def _pool(d: _Draw) -> str:
    h, w = d.image()
    name = d.pick(("max_pool2d", "avg_pool2d", "max_pool2d_nchw", "avg_pool2d_nchw"))
    k = d.pick((2, 3, 3, 5))
    window = {"k": k, "stride": d.pick((1, 2, 2)), "pad": k // 2 if d.chance(0.6) else 0}
    return _call(name, n=d.batch(), h=h, w=w, c=d.channels(), **window)


def _elementwise(d: _Draw) -> str:
    if d.chance(0.2):
        return _call("transpose", m=d.width(32), n=d.width(32))
    if d.chance(0.15):
        return _call("relu_muladd", n=d.width() * d.width())
    free = {"act": d.act() or "gelu", "bias": d.chance(0.6), "residual": d.chance(0.3)}
    return _call("activation", **_rows(d), **free)


FAMILIES: Mapping[str, tuple[Callable[[_Draw], str], float]] = {
    "matmul": (_matmul, 2.0),
    "dense": (_dense, 2.0),
    "batch_matmul": (_batch_matmul, 1.5),
    "gemv": (_gemv, 0.75),
    "scores": (_scores, 0.75),
    "attention": (_attention, 1.5),
    "conv1d": (_conv1d, 1.0),
    "conv2d": (_conv2d, 3.0),
    "conv2d_nchw": (_conv2d_nchw, 1.5),
    "conv3d": (_conv3d, 1.0),
    "group_conv2d": (_grouped, 1.0),
    "dilated_conv2d": (_dilated, 1.0),
    "depthwise_conv2d": (_depthwise, 1.0),
    "depthwise_conv2d_nchw": (_depthwise_nchw, 0.75),
    "conv2d_transpose": (_transposed, 1.0),
    "conv2d_capsule": (_capsule, 1.0),
    "conv2d_bn_relu": (_normalised, 1.0),
    "softmax": (_softmax, 0.75),
    "norm": (_norm, 0.5),
    "layer_norm": (_layer_norm, 0.75),
    "reduction": (_reduction, 0.75),
    "pool": (_pool, 0.75),
    "elementwise": (_elementwise, 0.75),
}
"""By name: what draws an operator of the family, and how often the family is drawn."""


def chosen_families(only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[str, ...]:
    """The families to draw from: all or ``only`` some, ``without`` others. Raises TunesmithError for none."""
    unknown = sorted({*only, *without} - set(FAMILIES))
    if unknown:
        raise TunesmithError(f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    chosen = tuple(f for f in FAMILIES if (not only or f in only) and f not in without)
    if not chosen:
        raise TunesmithError("no family is left to draw tasks from")
    return chosen


def draw_tasks(seed: int, families: Sequence[str] = tuple(FAMILIES)) -> Iterator[Task]:
    """Tasks without end; those of one seed and one choice of families are always the same."""
    index = 0
    while True:
        yield _draw(index, np.random.default_rng([seed, index]), families)
        index += 1


def _draw(index: int, rng: np.random.Generator, families: Sequence[str]) -> Task:
    weights = np.array([FAMILIES[f][1] for f in families])
    family = families[int(rng.choice(len(families), p=weights / weights.sum()))]
    draw, sizes = FAMILIES[family][0], _Draw(rng)
    for _ in range(_TRIES):
        text = draw(sizes)
        try:
            program = operator(text)
        except ProgramError:  # a window that does not fit its image
            continue
        if LEAST_S <= estimate_s(program) <= MOST_S:
            return Task(index, family, text, replace(program, name=family))
    raise AssertionError(f"the family {family} has hardly any task that takes from {LEAST_S} to {MOST_S} s")


def estimate_s(program: Program) -> float:
    """About what a good kernel takes on one core of an ordinary machine, in seconds."""
    return max(flops(program) / (_GFLOPS * 1e9), min_bytes(program) / (_GBS * 1e9))
