"""Loop nest to LLVM IR text.

Unrolled loops are expanded here, the vectorized loop becomes vector values, register tiles are stack arrays
with constant indices that SROA turns into registers. This module writes the functions around the statements.
"""

from dataclasses import dataclass
from itertools import groupby

from tunesmith.codegen.binary import PREPARE, REPEAT, RUN
from tunesmith.codegen.context import Context, Slot, alignment
from tunesmith.codegen.statements import CodeTooLarge, Statements
from tunesmith.codegen.text import flatten
from tunesmith.ir.loopnest import For, LoopKind, LoopNest, Stmt, Store, Update, walk_statements

__all__ = ["CodeTooLarge", "emit_module"]

_ATTRIBUTES = """attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }
!0 = !{i32 1}
!1 = !{!"branch_weights", i32 2000, i32 1}"""
_DECLARATIONS = """declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()"""


def emit_module(nest: LoopNest, threads: int, features: str = "", limit: int = 1 << 18) -> str:
    """LLVM IR text of a nest: ``ts_run``, ``ts_repeat`` and, with packed operands, ``ts_prepare``.

    Parallel loops ask OpenMP for ``threads`` threads. ``features`` are the target's (``+a,-b``). Raises
    CodeTooLarge for a function of more than about ``limit`` instructions.
    """
    enabled = frozenset(name[1:] for name in features.split(",") if name.startswith("+"))
    module = _Module(nest, threads, enabled, limit)
    parts = [*module.entry(RUN, "kernel", nest.body), _repeat()]
    if nest.prepare:
        parts += module.entry(PREPARE, "pack", nest.prepare)
    return "\n\n".join([*parts, _DECLARATIONS, _ATTRIBUTES])


def _run(inner: str, symbol: str, nest: LoopNest, linkage: str = "") -> str:
    """The entry point: pointers out of the array, then the function that knows they do not overlap."""
    lines = [f"define {linkage}void @{symbol}(ptr %buffers) #0 {{", "entry:"]
    args = ["ptr %buffers"]
    for i, b in enumerate(nest.buffers):
        lines.append(f"  %q{i} = getelementptr inbounds ptr, ptr %buffers, i64 {i}")
        lines.append(f"  %p{i} = load ptr, ptr %q{i}, align 8")
        args.append(f"ptr noalias align {alignment(b)} %p{i}")
    return "\n".join([*lines, f"  call void @{inner}({', '.join(args)})", "  ret void", "}"])


def _repeat() -> str:
    return f"""define void @{REPEAT}(ptr %buffers, i64 %n) #0 {{
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %body, label %exit
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  call void @{RUN}(ptr %buffers)
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}}"""


@dataclass(frozen=True)
class _Module:
    nest: LoopNest
    threads: int
    features: frozenset[str]
    limit: int

    def entry(self, symbol: str, name: str, body: tuple[Stmt, ...]) -> list[str]:
        """The functions of an entry point. With threads, each parallel loop is a function of its own and so
        is the code between two of them: within a function, its pointers are the only way to the buffers.
        """
        parts = [(is_parallel, tuple(run)) for is_parallel, run in groupby(body, self._is_parallel)]
        if not any(is_parallel for is_parallel, _ in parts):
            return [self._function(name, body), _run(name, symbol, self.nest)]
        functions, calls = [], []
        for n, (is_parallel, run) in enumerate(parts):
            for m, stmts in enumerate([(s,) for s in run] if is_parallel else [run]):
                part = f"{name}.{n}.{m}"
                functions.append(self._function(f"{part}.body", stmts, is_parallel))
                functions.append(_run(f"{part}.body", part, self.nest, "internal "))
                calls.append(self._call(part, is_parallel))
        return [
            *functions,
            "\n".join([f"define void @{symbol}(ptr %buffers) #0 {{", *calls, "  ret void", "}"]),
        ]

    def _call(self, part: str, is_parallel: bool) -> str:
        if not is_parallel:
            return f"  call void @{part}(ptr %buffers)"
        return f"  call void @GOMP_parallel(ptr @{part}, ptr %buffers, i32 {self.threads}, i32 0)"

    def _is_parallel(self, s: Stmt) -> bool:
        return self.threads > 1 and isinstance(s, For) and s.kind is LoopKind.PARALLEL

    def _function(self, name: str, body: tuple[Stmt, ...], is_parallel: bool = False) -> str:
        written = {s.buffer for s in walk_statements(body) if isinstance(s, Store | Update)}
        buffers = self.nest.buffers
        slots = {b.name: Slot(b, f"%p{i}", alignment(b), b.name in written) for i, b in enumerate(buffers)}
        statements = Statements(Context(slots, self.features), self.limit)
        if is_parallel:
            (loop,) = body
            assert isinstance(loop, For)
            statements.chunk(loop)
        else:
            statements.emit(body)
        params = ", ".join(f"ptr noalias nocapture align {alignment(b)} %p{i}" for i, b in enumerate(buffers))
        head = f"define internal void @{name}(ptr %buffers, {params}) noinline #0 {{"
        at = statements.at
        return "\n".join([head, "entry:", *flatten(at.entry), at.f.text(), "  ret void", "}"])
