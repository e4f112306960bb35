"""Program and schedule to machine code."""

from tunesmith.codegen import llvm
from tunesmith.codegen.binary import Binary, BufferSpec
from tunesmith.codegen.emit import CodeTooLarge, emit_module
from tunesmith.ir.loopnest import LoopNest
from tunesmith.ir.program import Program
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Schedule, lower

__all__ = ["build", "build_nest", "ir_text", "needs_openmp"]


def ir_text(nest: LoopNest, target: Target) -> str:
    """LLVM IR of a nest. Raises IllegalStep when unrolling makes it too large."""
    try:
        return emit_module(nest, target.threads, target.features)
    except CodeTooLarge as e:
        raise IllegalStep("unroll", str(e)) from None


def build_nest(nest: LoopNest, target: Target) -> Binary:
    """Object code of a loop nest. Raises IllegalStep and llvm.BuildError."""
    code = llvm.compile_ir(ir_text(nest, target), target.triple, target.cpu, target.features)
    specs = tuple(BufferSpec(b.name, b.role, b.dtype, b.shape, b.const) for b in nest.buffers)
    return Binary(code, specs, needs_openmp(code))


def needs_openmp(code: bytes) -> bool:
    """Whether object code calls the OpenMP runtime."""
    return b"GOMP_parallel" in code


def build(program: Program, schedule: Schedule, target: Target) -> Binary:
    """Lower, emit and compile one candidate. Raises IllegalStep and llvm.BuildError."""
    return build_nest(lower(program, schedule), target)
