"""Programs and kernels written by hand, imported by tests and by the workers that tests start."""

import os
import signal
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
declare void @abort()
define void @ts_run(ptr %b) noinline {{
entry:
  %x = load ptr, ptr %b
  %py = getelementptr ptr, ptr %b, i64 1
  %y = load ptr, ptr %py
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px
  %w = fmul float %v, {factor}
  %q = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {count}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
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


def binary(n: int, text: str | None = None, *, count: int | None = None, factor: float = 2.0) -> Binary:
    """A kernel for ``double(n)``: ``text`` gives another body, ``count`` and ``factor`` make it wrong."""
    body = text or LOOP.format(factor=f"{factor:e}", count=n if count is None else count)
    return Binary(compile_ir(body + REPEAT, *host()), specs(n))


def program_from_json(data: dict[str, Any]) -> Program:
    return double(data["n"])


def evaluate(program: Program, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": 2.0 * inputs["x"].astype(np.float64)}


def build(program: dict[str, Any], schedule: dict[str, Any], target: dict[str, Any]) -> Binary:
    """A builder that does what the schedule says."""
    match schedule.get("do", "build"):
        case "build":
            return binary(program["n"], factor=schedule.get("factor", 2.0))
        case "illegal":
            raise IllegalStep("split(i, 0): a factor is at least 1")
        case "bug":
            raise KeyError("an error nobody expects")
        case "hang":
            time.sleep(60)
        case "crash":
            os.kill(os.getpid(), signal.SIGABRT)
        case "exit":
            os._exit(7)
    raise AssertionError(schedule)


class IllegalStep(Exception):
    """Named like the real one."""
