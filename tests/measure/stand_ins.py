"""Programs and kernels written by hand, imported by tests and by the workers that tests start."""

import json
import os
import signal
import sys
import time
from typing import Any

import numpy as np

from tunesmith.codegen.binary import Binary, BufferSpec
from tunesmith.codegen.llvm import compile_ir, host
from tunesmith.ir.affine import var
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Binary as BinaryExpr
from tunesmith.ir.expr import BinaryOp, Const, Load
from tunesmith.ir.loopnest import Role
from tunesmith.ir.program import Axis, Program, Stage, Tensor

REPEAT = """
define void @ts_repeat(ptr %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @ts_run(ptr %b)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

LOOP = """
define void @ts_run(ptr %b) noinline {{
entry:
  %x = load ptr, ptr %b
  %py = getelementptr ptr, ptr %b, i64 1
  %y = load ptr, ptr %py
  br label %loop
loop:
  %i = phi i64 [ {first}, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px
  %w = fmul float %v, {factor}
  %q = getelementptr float, ptr {to}, i64 %i
  store float %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {last}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

# Doubles through a packed copy and a temporary, to see that both are there and prepared.
PACKED = """
define void @copy(ptr %b, i64 %from, i64 %to, float %factor) noinline {
entry:
  %px = getelementptr ptr, ptr %b, i64 %from
  %x = load ptr, ptr %px
  %py = getelementptr ptr, ptr %b, i64 %to
  %y = load ptr, ptr %py
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pv = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %pv
  %w = fmul float %v, %factor
  %q = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 100
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @ts_prepare(ptr %b) {
  call void @copy(ptr %b, i64 0, i64 1, float 1.0)
  ret void
}
define void @ts_run(ptr %b) noinline {
  call void @copy(ptr %b, i64 1, i64 3, float 2.0)
  call void @copy(ptr %b, i64 3, i64 2, float 1.0)
  ret void
}
"""

# Right for finite values only.
FINITE_ONLY = LOOP.replace(
    "%w = fmul float %v, {factor}",
    "%f = fcmp olt float %v, 1073741824.0\n"
    "  %w0 = fmul float %v, {factor}\n"
    "  %w = select i1 %f, float %w0, float 0.0",
)

# Right in the first call; later ones remember how many there have been.
WORSE_EACH_TIME = """
@calls = global float 0.0
define void @ts_run(ptr %b) noinline {
entry:
  %c = load float, ptr @calls
  %c1 = fadd float %c, 1.0
  store float %c1, ptr @calls
  %x = load ptr, ptr %b
  %py = getelementptr ptr, ptr %b, i64 1
  %y = load ptr, ptr %py
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px
  %d = fadd float %v, %v
  %w = fadd float %d, %c
  %q = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 100
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

TWO_THREADS = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
define void @half(ptr %b) {
entry:
  %t = call i32 @omp_get_thread_num()
  %w = zext i32 %t to i64
  %first = mul i64 %w, 50
  %last = add i64 %first, 50
  %x = load ptr, ptr %b
  %py = getelementptr ptr, ptr %b, i64 1
  %y = load ptr, ptr %py
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px
  %d = fadd float %v, %v
  %q = getelementptr float, ptr %y, i64 %i
  store float %d, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @ts_run(ptr %b) noinline {
  call void @GOMP_parallel(ptr @half, ptr %b, i32 2, i32 0)
  ret void
}
"""

HANG = """
define void @ts_run(ptr %b) noinline {
entry:
  br label %loop
loop:
  %x = load volatile i64, ptr %b
  br label %loop
}
"""

ABORT = """
declare void @abort()
define void @ts_run(ptr %b) noinline {
  call void @abort()
  ret void
}
"""


def double(n: int) -> Program:
    """``y[i] = 2 * x[i]``"""
    body = BinaryExpr(BinaryOp.MUL, Const(2.0), Load("x", (var("i"),)))
    stage = Stage("y", (Axis("i", n),), (), None, body, DType.F32, DType.F32)
    return Program("double", (Tensor("x", (n,), DType.F32),), (stage,), ("y",))


def specs(n: int) -> tuple[BufferSpec, ...]:
    return (BufferSpec("x", Role.INPUT, DType.F32, (n,)), BufferSpec("y", Role.OUTPUT, DType.F32, (n,)))


def compiled(text: str) -> bytes:
    return compile_ir(text + REPEAT, *host())


def binary(
    n: int, text: str = LOOP, *, first: int = 0, last: int | None = None, factor: float = 2.0, to: str = "%y"
) -> Binary:
    """A kernel for ``double(n)`` with ways to make it wrong."""
    body = text.format(first=first, last=n if last is None else last, factor=f"{factor:e}", to=to)
    return Binary(compiled(body), specs(n))


def other(n: int, text: str) -> Binary:
    """A kernel with the buffers of ``double(n)`` and any text."""
    return Binary(compiled(text), specs(n))


def packed_binary() -> Binary:
    """A kernel for ``double(100)`` with a packed input and a temporary."""
    x, y = specs(100)
    packed = BufferSpec("p", Role.PACKED, DType.F32, (100,))
    temp = BufferSpec("t", Role.TEMP, DType.F32, (100,))
    return Binary(compiled(PACKED), (x, packed, y, temp))


def two_thread_binary() -> Binary:
    """A kernel for ``double(100)`` on two OpenMP threads."""
    return Binary(compiled(TWO_THREADS), specs(100), needs_openmp=True)


def program_from_json(data: dict[str, Any]) -> Program:
    return double(data["n"])


def evaluate(program: Program, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": 2.0 * inputs["x"].astype(np.float64)}


def build(program_text: str, schedule_text: str, target_text: str) -> Binary:
    """A builder that does what the schedule says."""
    program, schedule = json.loads(program_text), json.loads(schedule_text)
    match schedule.get("do", "build"):
        case "build":
            return binary(program["n"], factor=schedule.get("factor", 2.0))
        case "chatter":
            print("x" * 1_000_000)
            print("y" * 1_000_000, file=sys.stderr)
            return binary(program["n"])
        case "illegal":
            raise IllegalStep("split(i, 0): a factor is at least 1")
        case "bug":
            raise KeyError("an error nobody expects")
        case "hang":
            time.sleep(60)
        case "spin":
            while True:
                pass
        case "crash":
            os.kill(os.getpid(), signal.SIGABRT)
        case "exit":
            os._exit(7)
    raise AssertionError(schedule)


class IllegalStep(Exception):
    """Named like the real one."""
