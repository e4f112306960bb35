"""Empty caches before a call that is to find its operands in memory."""

import ctypes
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tunesmith.codegen.llvm import compile_ir, load_object
from tunesmith.measure.hardware import hardware, memory_available

__all__ = ["Evictor"]

_LINE = 64
_MOST_BYTES = 256 << 20
_EVICT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

# What writes a line back and drops it from all levels, and what waits until that is done.
_X86 = ("call void @llvm.x86.sse2.clflush(ptr {at})", "call void @llvm.x86.sse2.mfence()")
_ARM = ('call void asm sideeffect "dc civac, $0", "r"(ptr {at})', 'call void asm sideeffect "dsb sy", ""()')
_OPERATIONS = {"x86_64": _X86, "aarch64": _ARM, "arm64": _ARM}

_IR = """
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()

define void @evict(ptr %first, ptr %end) {{
entry:
  br label %loop
loop:
  %at = phi ptr [ %first, %entry ], [ %next, %loop ]
  {drop}
  %next = getelementptr i8, ptr %at, i64 {line}
  %more = icmp ult ptr %next, %end
  br i1 %more, label %loop, label %done
done:
  {wait}
  ret void
}}
"""


class Evictor:
    """Drops arrays from all caches, line by line: exact, and as quick as the arrays are small, however large
    a last cache that is shared with other cores. Where the processor offers that to nobody but the system,
    it streams through twice the last cache, at most 256 MiB.
    """

    def __init__(self, triple: str, cpu: str, features: str) -> None:
        self._evict: Callable[[int, int], object] | None = None
        operations = _OPERATIONS.get(triple.split("-", 1)[0])
        if operations is None:
            facts = hardware()
            size = min(2 * max(facts.l3_bytes, facts.l2_bytes, 1 << 20), _MOST_BYTES, memory_available() // 8)
            self._other = np.zeros(size // 8)
            return
        drop, wait = operations
        text = _IR.format(drop=drop.format(at="%at"), wait=wait, line=_LINE)
        if operations is _ARM:
            text = "\n".join(line for line in text.splitlines() if not line.startswith("declare"))
        self._code = load_object(compile_ir(text, triple, cpu, features))
        self._evict = _EVICT(self._code.address("evict"))

    def __call__(self, arrays: Iterable[NDArray[np.generic]]) -> None:
        if self._evict is None:
            np.add(self._other, 1.0, out=self._other)
            return
        for array in arrays:
            if array.nbytes:
                first = array.ctypes.data
                self._evict(first & -_LINE, first + array.nbytes)
