"""Is the answer right: compare a kernel's output with what is expected."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tunesmith.codegen.binary import Binary, BufferSpec
from tunesmith.ir.loopnest import Role
from tunesmith.ir.program import Program
from tunesmith.measure.arena import GuardedArena, GuardedBuffer
from tunesmith.measure.kernel import Kernel
from tunesmith.measure.reference import Expected, Inputs, Reference
from tunesmith.records import Measurement, Status

__all__ = ["Verifier", "compare", "verdict_on"]


def compare(name: str, got: np.ndarray, expected: Expected) -> tuple[float, str]:
    """Largest deviation relative to the scale, and what is wrong: the empty text when nothing is.

    NaN and infinities must be where they are expected, infinities with their sign.
    """
    with np.errstate(all="ignore"):
        deviation = np.subtract(got, expected.values)
        worst = float(max(deviation.max(), -deviation.min()))
        if math.isfinite(worst) and worst <= expected.tolerance * expected.scale:
            return worst / expected.scale, ""
        return _inspect(name, got, expected, np.abs(deviation))


def _inspect(name: str, got: np.ndarray, expected: Expected, deviation: np.ndarray) -> tuple[float, str]:
    want, allowed = expected.values, expected.tolerance * expected.scale
    close = np.isfinite(got) & np.isfinite(want) & (deviation <= allowed)
    right = close | _same(got, want)
    if expected.others is not None:
        near = np.abs(np.subtract(got, expected.others)) <= allowed
        right |= (near & np.isfinite(got)) | _same(got, expected.others)
    finite = np.isfinite(deviation)
    error = float(deviation.max(initial=0.0, where=finite)) / expected.scale
    if right.all():
        return error, ""
    wrong = int(right.size - np.count_nonzero(right))
    place = np.unravel_index(int(np.argmin(right)), right.shape)
    index = ", ".join(str(int(i)) for i in place)
    found = f"{got[place]:.9g}{_poison_note(got[place])}"
    return error, (
        f"{name}[{index}] is {found}, expected {want[place]:.9g} within {allowed:.3g}; "
        f"{wrong} of {right.size} values are wrong"
    )


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    same: np.ndarray = (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _poison_note(value: np.generic) -> str:
    return " (never written)" if set(value.tobytes()) == {0xFF} else ""


class Verifier:
    """Runs kernels between guard pages and compares their answers with a reference."""

    def __init__(self, program: Program, inputs: Inputs, reference: Reference) -> None:
        self.reference = reference
        self._arena = GuardedArena()
        self._inputs = {t.name: _frozen(t.name, inputs[t.name], program) for t in program.inputs}

    def verify(self, kernel: Kernel, binary: Binary) -> Measurement:
        """The kernel's answer once; ``max_error`` is the worst over the outputs."""
        buffers = [self._inputs.get(s.name) or self._arena.take(s) for s in binary.buffers]
        try:
            bound = kernel.bind([b.address for b in buffers])
            bound.prepare()
            bound.run()
            return self._judge(binary.buffers, buffers)
        finally:
            self._arena.release()

    def _judge(self, specs: Sequence[BufferSpec], buffers: Sequence[GuardedBuffer]) -> Measurement:
        pairs = list(zip(specs, buffers, strict=True))
        for spec, buffer in pairs:
            if not buffer.intact():
                return Measurement(Status.OUT_OF_BOUNDS, error=f"wrote outside {spec.name}")
        return verdict_on(self.reference, {s.name: b.view(s) for s, b in pairs if s.role is Role.OUTPUT})


def verdict_on(reference: Reference, outputs: Mapping[str, np.ndarray]) -> Measurement:
    """Whether the outputs are right; ``max_error`` is the worst of them."""
    found = [compare(name, outputs[name], expected) for name, expected in reference.outputs.items()]
    faults = [fault for _, fault in found if fault]
    status = Status.WRONG_ANSWER if faults else Status.OK
    worst = max(error for error, _ in found)
    return Measurement(status, error="\n".join(faults), max_error=worst, tolerance=reference.tolerance)


def _frozen(name: str, values: np.ndarray, program: Program) -> GuardedBuffer:
    tensor = program.tensors[name]
    spec = BufferSpec(name, Role.INPUT, tensor.dtype, tensor.shape)
    buffer = GuardedBuffer(spec.size_bytes, tensor.dtype.size_bytes)
    buffer.view(spec)[...] = values
    buffer.freeze()
    return buffer
