"""What a kernel must answer: seeded inputs, the float64 reference on them, and how close is right."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np

from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Load, Reducer, Unary, UnaryOp, walk
from tunesmith.ir.padding import without_padding
from tunesmith.ir.program import Program, Stage, Tensor

__all__ = [
    "Expected",
    "Inputs",
    "Reference",
    "Specials",
    "compute_reference",
    "make_inputs",
    "tolerance",
    "with_padding_left_out",
]

Inputs = dict[str, np.ndarray]
Evaluate = Callable[[Program, Inputs], Mapping[str, np.ndarray]]

_SMALLEST_SCALE = 1e-30
_TAME = (0.0, -0.0, 1e-40, -1e-40, 1.2e-38, 1e9, -1e9)
_WILD = (math.nan, math.inf, -math.inf)
_BASE_ULPS = 8.0
_FUNCTION_ULPS = 4.0
_PERTURBATION = 2.0**-20  # survives rounding to the inputs' type
_MOST_AMPLIFIED = 1e4
_AMPLIFIERS = {
    UnaryOp.EXP, UnaryOp.EXP2, UnaryOp.LOG, UnaryOp.LOG2, UnaryOp.LOG10, UnaryOp.SIN, UnaryOp.COS,
    UnaryOp.SQRT, UnaryOp.RSQRT, BinaryOp.DIV, BinaryOp.POW,
    UnaryOp.TANH, UnaryOp.SIGMOID, UnaryOp.ERF,  # errors of a large sum against results of at most 1
}  # fmt: skip


class Specials:
    """Values put into a few places of otherwise ordinary inputs."""

    NONE = "none"
    TAME = "tame"  # zeros, denormals, large numbers
    WILD = "wild"  # NaN and infinities


def _fill(tensor: Tensor, rng: np.random.Generator, values: tuple[float, ...]) -> np.ndarray:
    wide = tensor.dtype is DType.F64
    data = rng.random(tensor.shape, dtype=np.float64 if wide else np.float32)
    data = (2 * data - 1).astype(tensor.dtype.numpy, copy=False)
    count = min(len(values), max(1, data.size // 16))
    if values:
        places = rng.choice(data.size, count, replace=False)
        data.reshape(-1)[places] = rng.permutation(np.array(values))[:count]
    return data


def make_inputs(program: Program, seed: int, specials: str = Specials.NONE) -> Inputs:
    """Values uniform in [-1, 1) for every input; the same for the same seed."""
    rng = np.random.default_rng(seed)
    values = {Specials.NONE: (), Specials.TAME: _TAME, Specials.WILD: _WILD}[specials]
    return {t.name: _fill(t, rng, values) for t in program.inputs}


def _node_ulps(e: Expr) -> float:
    if isinstance(e, Unary) and e.op not in (UnaryOp.NEG, UnaryOp.ABS):
        return _FUNCTION_ULPS
    if isinstance(e, Binary) and e.op is BinaryOp.POW:
        return _FUNCTION_ULPS
    return 0.0 if isinstance(e, Const | Load) else 1.0


def _stage_ulps(stage: Stage) -> float:
    """Rounding errors of a stage in units of eps: its operations, and the random walk of its running sum."""
    ulps = sum(_node_ulps(e) for e in walk(stage.body))
    if stage.reducer in (Reducer.SUM, Reducer.PROD):
        ulps += 2 * math.sqrt(math.prod(a.extent for a in stage.reduce_axes))
    return ulps


def tolerance(program: Program) -> float:
    """Allowed deviation relative to the largest value of an output.

    eps · (8 + the longest chain of stages, each counting one eps an operation, four a transcendental
    function and 2·√n a sum of n terms). The terms of a sum in any order err by a random walk of n
    roundings, √n·eps/2 of its partial sums; the largest output is several times the typical one. So the
    bound leaves a factor of ten or more to rounding, while one lost term of thousands exceeds it.
    """
    total: dict[str, float] = {}
    for stage in program.stages:
        before = max((total.get(name, 0.0) for name in stage.reads), default=0.0)
        total[stage.name] = before + _stage_ulps(stage)
    eps = max(max(s.dtype.eps, s.accumulate.eps) for s in program.stages)
    return eps * (_BASE_ULPS + max(total[name] for name in program.outputs))


def _may_amplify(program: Program) -> bool:
    """Whether functions that magnify errors are applied to results of sums."""
    summed: set[str] = set()
    for stage in program.stages:
        after_sum = any(name in summed for name in stage.reads)
        ops = (e.op for e in walk(stage.body) if isinstance(e, Unary | Binary))
        if after_sum and any(op in _AMPLIFIERS for op in ops):
            return True
        if after_sum or stage.reducer is Reducer.SUM:
            summed.add(stage.name)
    return False


def _summands(e: Expr) -> tuple[str, ...]:
    """Tensors that are added to give the value, when it is a sum at all."""
    match e:
        case Load(tensor, _):
            return (tensor,)
        case Unary(UnaryOp.NEG, a):
            return _summands(a)
        case Binary(BinaryOp.ADD | BinaryOp.SUB, a, b):
            return _summands(a) + _summands(b)
        case _:
            return ()


def _largest(values: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        size = np.abs(values)
        top = float(size.max(initial=0.0))
        return top if math.isfinite(top) else float(size.max(initial=0.0, where=np.isfinite(size)))


@dataclass(frozen=True, slots=True)
class Expected:
    """``values`` in the output's type; deviations are relative to ``scale`` and at most ``tolerance``.

    ``others``: values that are right as well, where they are not those.
    """

    values: np.ndarray
    scale: float
    tolerance: float
    others: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    outputs: dict[str, Expected]

    @property
    def tolerance(self) -> float:
        return max(e.tolerance for e in self.outputs.values())

    def to_bytes(self) -> bytes:
        out = BytesIO()
        head = {name: [e.scale, e.tolerance] for name, e in self.outputs.items()}
        text = json.dumps(head).encode()
        out.write(len(text).to_bytes(8, "little") + text)
        for e in self.outputs.values():
            np.save(out, e.values, allow_pickle=False)
        return out.getvalue()

    @staticmethod
    def from_bytes(data: bytes) -> "Reference":
        stream = BytesIO(data)
        head: dict[str, Any] = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        return Reference(
            {name: Expected(np.load(stream, allow_pickle=False), *pair) for name, pair in head.items()}
        )


def _amplification(program: Program, inputs: Inputs, exact: Mapping[str, np.ndarray], run: Evaluate) -> float:
    """How much larger than the inputs' relative error that of the outputs is, at least 1."""
    rng = np.random.default_rng(0)
    signs = {n: _PERTURBATION * rng.choice((-1.0, 1.0), v.shape) for n, v in inputs.items()}
    moved = run(program, {n: v.astype(np.float64) * (1 + signs[n]) for n, v in inputs.items()})
    worst = 1.0
    for name in program.outputs:
        scale = _largest(exact[name])
        if scale > 0:
            with np.errstate(all="ignore"):
                worst = max(worst, _largest(moved[name] - exact[name]) / (scale * _PERTURBATION))
    return min(worst, _MOST_AMPLIFIED)


def with_padding_left_out(
    reference: Reference, program: Program, inputs: Inputs, evaluate: Evaluate
) -> Reference:
    """The reference, with what a kernel may answer that leaves out padding instead of multiplying by it: that
    is the same until a factor is infinite or NaN."""
    shorter = without_padding(program)
    if shorter == program:
        return reference
    values = evaluate(shorter, inputs)
    outputs = {
        name: replace(e, others=np.ascontiguousarray(values[name], dtype=e.values.dtype))
        for name, e in reference.outputs.items()
    }
    return Reference(outputs)


def compute_reference(program: Program, inputs: Inputs, evaluate: Evaluate) -> Reference:
    """Evaluate in float64. An output that is a plain sum is scaled by its largest summand too, and where
    sums go through functions that magnify errors, the tolerance grows by what a perturbation shows."""
    terms = {n: _summands(program.stage(n).body) for n in program.outputs}
    inner = dict.fromkeys(t for ts in terms.values() for t in ts if t in program.stage_by_name)
    asked = replace(program, outputs=tuple(dict.fromkeys((*program.outputs, *inner))))
    with np.errstate(all="ignore"):
        exact = evaluate(asked, inputs)
        factor = _amplification(program, inputs, exact, evaluate) if _may_amplify(program) else 1.0
        bound = tolerance(program) * factor
        outputs = {}
        for name in program.outputs:
            values = np.ascontiguousarray(exact[name], dtype=program.stage(name).dtype.numpy)
            parts = [values, *(exact.get(t, inputs.get(t)) for t in terms[name])]
            scale = max(_largest(p) for p in parts if p is not None)
            outputs[name] = Expected(values, max(scale, _SMALLEST_SCALE), bound)
    return Reference(outputs)
