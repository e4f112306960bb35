"""Targets, and programs compiled to functions of NumPy arrays."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.codegen import Binary, build_nest, llvm
from tunesmith.ir import LoopNest, Program, parse
from tunesmith.ir.loopnest import Role
from tunesmith.measure.arena import GuardedArena
from tunesmith.measure.kernel import Kernel
from tunesmith.records import Peaks, Target
from tunesmith.schedule import Schedule, Step, lower

Array = NDArray[Any]


@cache
def host(threads: int = 1) -> Target:
    triple, cpu, features = llvm.host()
    peaks = Peaks(100.0, 50.0, 100.0, 50.0, 20.0, 10.0)
    return Target(triple, cpu, features, "here", 2, threads, 32 << 10, 1 << 20, 32 << 20, 64, 64, 32, peaks)


def old_pc() -> Target:
    """Without fused multiply-add."""
    return replace(host(), cpu="x86-64", features="")


def nest_of(text: str, *steps: Step) -> tuple[Program, LoopNest]:
    program = parse(text)
    return program, lower(program, Schedule(steps))


def call(binary: Binary, inputs: dict[str, Array]) -> dict[str, Array]:
    """Run it once, on buffers that end at pages that may not be touched."""
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
    return {
        spec.name: buffer.view(spec).copy()
        for spec, buffer in zip(binary.buffers, buffers, strict=True)
        if spec.role is Role.OUTPUT
    }


def compiled(nest: LoopNest, target: Target | None = None) -> Callable[..., Array]:
    """A function of the inputs, by name, that gives the only result."""
    binary = build_nest(nest, target or host())

    def run(**inputs: Array) -> Array:
        (result,) = call(binary, inputs).values()
        return result

    return run


def random_inputs(program: Program, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in program.inputs}
