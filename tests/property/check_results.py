"""Runs a lowered schedule, by the interpreter and as machine code, and compares it with the reference."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_programs import inputs_of

from tunesmith.codegen import build_nest, llvm
from tunesmith.ir import DType, LoopNest, Program, evaluate, run_nest
from tunesmith.ir.loopnest import Role
from tunesmith.measure.arena import GuardedArena
from tunesmith.measure.kernel import Kernel
from tunesmith.records import Peaks, Target

_TOLERANCE = {DType.F32: 2e-4, DType.F64: 1e-9}  # of the largest value: sums are reassociated


CPUS = ("host", "x86-64", "x86-64-v3")
"""What code is made for: this machine, and older ones whose code it runs as well."""


@cache
def target(threads: int = 1, cpu: str = "host", vector_bytes: int = 64, registers: int = 32) -> Target:
    triple, name, features = llvm.host()
    if cpu != "host" and "+avx2" in features and "+fma" in features:
        name, features = cpu, ""
    peaks = Peaks(100.0, 50.0, 100.0, 50.0, 20.0, 10.0)
    caches = (32 << 10, 1 << 20, 32 << 20, 64)
    return Target(triple, name, features, "here", 2, threads, *caches, vector_bytes, registers, peaks)


def check_interpreted(program: Program, nest: LoopNest) -> None:
    inputs = inputs_of(program)
    _compare(program, run_nest(nest, inputs), inputs)


def check_compiled(program: Program, nest: LoopNest, target: Target) -> dict[str, NDArray[Any]]:
    """The results of compiled code, after a comparison with the reference.

    Inputs are read-only, results poisoned, and every buffer ends at a page that may not be touched.
    """
    inputs = inputs_of(program)
    binary = build_nest(nest, target)
    arena = GuardedArena()
    buffers = [arena.take(spec) for spec in binary.buffers]
    for spec, buffer in zip(binary.buffers, buffers, strict=True):
        if spec.role is Role.INPUT:
            buffer.view(spec)[...] = inputs[spec.name]
            buffer.freeze()
    kernel = Kernel(binary).bind([b.address for b in buffers])
    kernel.prepare()
    kernel.run()
    assert all(b.intact() for b in buffers)
    results = {
        spec.name: buffer.view(spec).copy()
        for spec, buffer in zip(binary.buffers, buffers, strict=True)
        if spec.role is Role.OUTPUT
    }
    _compare(program, results, inputs)
    return results


def _compare(program: Program, results: dict[str, NDArray[Any]], inputs: dict[str, NDArray[Any]]) -> None:
    for name, expected in evaluate(program, inputs).items():
        dtype = program.tensors[name].dtype
        finite = np.abs(expected[np.isfinite(expected)])
        scale = float(finite.max()) if finite.size else 0.0
        atol = _TOLERANCE[dtype] * max(scale, 1.0)
        np.testing.assert_allclose(results[name], expected, rtol=0, atol=atol, err_msg=name)
