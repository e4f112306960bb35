"""Loop nest to LLVM IR text.

Unrolled loops are expanded here, the vectorized loop becomes vector values, register tiles are stack arrays
with constant indices that SROA turns into registers. This module writes the functions around the statements.
"""

from dataclasses import dataclass, field

from tunesmith.codegen.binary import PREPARE, REPEAT, RUN
from tunesmith.codegen.context import Context, Slot, alignment
from tunesmith.codegen.statements import CodeTooLarge, Statements
from tunesmith.codegen.text import flatten
from tunesmith.ir.loopnest import For, LoopNest, Stmt, Store, Update, walk_statements

__all__ = ["CodeTooLarge", "emit_module"]

_ATTRIBUTES = """attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }
!0 = !{i32 1}
!1 = !{!"branch_weights", i32 2000, i32 1}"""
_DECLARATIONS = """declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()"""


def emit_module(nest: LoopNest, threads: int, max_lines: int = 60_000) -> str:
    """LLVM IR text of a nest: ``ts_run``, ``ts_repeat`` and, with packed operands, ``ts_prepare``.

    Parallel loops ask OpenMP for ``threads`` threads. Raises CodeTooLarge.
    """
    module = _Module(nest, threads, max_lines)
    parts = [module.function("kernel", nest.body), _run("kernel", RUN, nest), _repeat()]
    if nest.prepare:
        parts += [module.function("pack", nest.prepare), _run("pack", PREPARE, nest)]
    return "\n\n".join([*module.outlined, *parts, _DECLARATIONS, _ATTRIBUTES])


def _run(inner: str, symbol: str, nest: LoopNest) -> str:
    """The entry point: pointers out of the array, then the function that knows they do not overlap."""
    lines = [f"define void @{symbol}(ptr %buffers) #0 {{", "entry:"]
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


@dataclass
class _Module:
    """``outlined`` collects the functions of parallel loops, each with its entry point."""

    nest: LoopNest
    threads: int
    max_lines: int
    outlined: list[str] = field(default_factory=list)

    def function(self, name: str, body: tuple[Stmt, ...]) -> str:
        statements = self._statements(body)
        statements.emit(body)
        return self._text(name, statements)

    def parallel(self, loop: For) -> str:
        """The body of a parallel loop as a function of its own; returns the function's name."""
        name = f"parallel{len(self.outlined)}"
        self.outlined.append("")  # keep the number
        at = len(self.outlined) - 1
        statements = self._statements(loop.body)
        statements.chunk(loop)
        entry = _run(f"{name}.body", name, self.nest).replace("define void", "define internal void", 1)
        self.outlined[at] = f"{self._text(f'{name}.body', statements)}\n\n{entry}"
        return name

    def _statements(self, body: tuple[Stmt, ...]) -> Statements:
        written = {s.buffer for s in walk_statements(body) if isinstance(s, Store | Update)}
        slots = {
            b.name: Slot(b, f"%p{i}", alignment(b), b.name in written)
            for i, b in enumerate(self.nest.buffers)
        }
        outline = self.parallel if self.threads > 1 else None
        return Statements(Context(slots), self.threads, self.max_lines, outline)

    def _text(self, name: str, statements: Statements) -> str:
        params = ", ".join(
            f"ptr noalias nocapture align {alignment(b)} %p{i}" for i, b in enumerate(self.nest.buffers)
        )
        head = f"define internal void @{name}(ptr %buffers, {params}) noinline #0 {{"
        at = statements.at
        return "\n".join([head, "entry:", *flatten(at.entry), at.f.text(), "  ret void", "}"])
