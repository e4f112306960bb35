"""Measured limits of one core: multiply-add rates and read bandwidths, taken with generated kernels.

A bandwidth here is that of one stream read with wide loads from a working set that fits the level. It is
the highest rate at which data arrives from there. A kernel that reads three streams and writes a fourth
gets less of it: a written line is fetched first and travels back later, so it counts twice, and streams
share the prefetchers. Take the numbers as bounds on bytes moved, not as forecasts.
"""

import ctypes
import mmap
import time
from collections.abc import Callable

from tunesmith.codegen.llvm import compile_ir, load_object
from tunesmith.measure.arena import advise_huge
from tunesmith.measure.hardware import Hardware, memory_available
from tunesmith.records import Peaks

__all__ = ["Calibration", "flops_per_round", "fma_ir", "measure_peaks", "read_block", "read_ir"]

_ACCUMULATORS = 12  # latency (4 or 5) times two units, and 14 registers in all
_UNROLL = 4
_LOADS = 16
_WARM_S = 0.02
_SAMPLE_S = 0.004
_SAMPLES = 6
_DRAM_BYTES = 128 << 20
_FMA = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_READ = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def fma_ir(name: str, bits: int, vector_bytes: int) -> str:
    """``void name(ptr out, i64 n)``: n rounds of independent multiply-adds on full vectors.

    ``out`` gives the operands and takes the result, so that nothing can be folded or dropped.
    """
    lanes = vector_bytes * 8 // bits
    t = f"<{lanes} x {'float' if bits == 32 else 'double'}>"
    fma = f"@llvm.fmuladd.v{lanes}f{bits}"
    lines = [f"declare {t} {fma}({t}, {t}, {t})", f"define void @{name}(ptr %out, i64 %n) {{", "entry:"]
    lines += [f"  %x = load {t}, ptr %out, align 4", f"  %pm = getelementptr {t}, ptr %out, i64 1"]
    lines += [f"  %m = load {t}, ptr %pm, align 4", "  br label %loop", "loop:"]
    lines += ["  %i = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    last = _UNROLL - 1
    for a in range(_ACCUMULATORS):
        lines.append(f"  %p{a} = phi {t} [ %x, %entry ], [ %v{a}.{last}, %loop ]")
    for u in range(_UNROLL):
        for a in range(_ACCUMULATORS):
            old = f"%v{a}.{u - 1}" if u else f"%p{a}"
            lines.append(f"  %v{a}.{u} = call {t} {fma}({t} {old}, {t} %m, {t} %x)")
    lines += ["  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %n"]
    lines += ["  br i1 %more, label %loop, label %done", "done:"]
    total = f"%v0.{last}"
    for a in range(1, _ACCUMULATORS):
        lines.append(f"  %s{a} = fadd {t} {total}, %v{a}.{last}")
        total = f"%s{a}"
    return "\n".join([*lines, f"  store {t} {total}, ptr %out, align 4", "  ret void", "}", ""])


def flops_per_round(bits: int, vector_bytes: int) -> int:
    return 2 * _ACCUMULATORS * _UNROLL * (vector_bytes * 8 // bits)


def read_ir(name: str, vector_bytes: int) -> str:
    """``void name(ptr data, i64 blocks, i64 n, ptr out)``: reads ``blocks`` blocks n times over.

    A block is ``read_block`` bytes.
    """
    t = f"<{vector_bytes // 4} x i32>"
    half = _LOADS // 2
    lines = [f"define void @{name}(ptr %data, i64 %blocks, i64 %n, ptr %out) {{", "entry:"]
    lines += [f"  %x = load {t}, ptr %out, align 4", "  br label %outer", "outer:"]
    lines += ["  %r = phi i64 [ 0, %entry ], [ %rnext, %after ]"]
    lines += [f"  %o{a} = phi {t} [ %x, %entry ], [ %w{a}, %after ]" for a in range(half)]
    lines += ["  br label %loop", "loop:", "  %i = phi i64 [ 0, %outer ], [ %next, %loop ]"]
    lines += [f"  %p{a} = phi {t} [ %o{a}, %outer ], [ %w{a}, %loop ]" for a in range(half)]
    lines += [f"  %block = getelementptr [{_LOADS} x {t}], ptr %data, i64 %i"]
    for k in range(_LOADS):
        lines.append(f"  %q{k} = getelementptr {t}, ptr %block, i64 {k}")
        lines.append(f"  %l{k} = load {t}, ptr %q{k}, align 4")
    for a in range(half):
        lines.append(f"  %h{a} = xor {t} %p{a}, %l{a}")
        lines.append(f"  %w{a} = xor {t} %h{a}, %l{a + half}")
    lines += ["  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %blocks"]
    lines += ["  br i1 %more, label %loop, label %after", "after:", "  %rnext = add i64 %r, 1"]
    lines += ["  %again = icmp slt i64 %rnext, %n", "  br i1 %again, label %outer, label %done", "done:"]
    total = "%w0"
    for a in range(1, half):
        lines.append(f"  %s{a} = xor {t} {total}, %w{a}")
        total = f"%s{a}"
    return "\n".join([*lines, f"  store {t} {total}, ptr %out, align 4", "  ret void", "}", ""])


def read_block(vector_bytes: int) -> int:
    return _LOADS * vector_bytes


def _seconds(run: Callable[[int], object], n: int) -> float:
    start = time.thread_time_ns()  # other guests of the core take time that is not ours
    run(n)
    return max(1, time.thread_time_ns() - start) * 1e-9


def _rate(run: Callable[[int], object], work: float) -> float:
    """Units of work a second; ``run(n)`` does n times ``work``.

    The highest sample is set aside, since one sample can be a fault of the timer; the next is taken:
    other guests of the machine only ever make a sample slower.
    """
    n = 1
    while (took := _seconds(run, n)) < _SAMPLE_S / 2:
        n = max(2 * n, int(n * _SAMPLE_S / max(took, 1e-7) / 4))
    n = max(1, round(n * _SAMPLE_S / took))
    times = sorted(_seconds(run, n) for _ in range(_SAMPLES))
    return work * n / times[1]


class Calibration:
    """A fixed piece of arithmetic, to see whether the machine is as fast as it was."""

    def __init__(self, triple: str, cpu: str, features: str, vector_bytes: int) -> None:
        text = fma_ir("calibrate", 32, vector_bytes)
        self._code = load_object(compile_ir(text, triple, cpu, features))
        address = self._code.address("calibrate")
        self._function = _FMA(address)
        self._operands = (ctypes.c_float * (vector_bytes // 2))(*[0.5] * (vector_bytes // 2))
        self._rounds = 1000
        self._first = self._take(warm=True)

    def _run(self, n: int) -> None:
        self._function(ctypes.addressof(self._operands), n)

    def _take(self, warm: bool = False) -> float:
        if warm:
            deadline = time.perf_counter() + 0.005
            while time.perf_counter() < deadline:
                self._run(self._rounds)
            self._rounds = max(1, int(self._rounds * 3e-4 / _seconds(self._run, self._rounds)))
        return min(_seconds(self._run, self._rounds) for _ in range(3))

    def drift(self) -> float:
        """Speed now over speed at the start; takes about a millisecond."""
        return self._first / self._take()


def _fma_rate(bits: int, vector_bytes: int, address: int) -> float:
    function = _FMA(address)
    count = 2 * vector_bytes * 8 // bits
    kind = ctypes.c_float if bits == 32 else ctypes.c_double
    operands = (kind * count)(*[0.5] * count)
    return _rate(lambda n: function(ctypes.addressof(operands), n), flops_per_round(bits, vector_bytes))


def _dram_bytes(l3_bytes: int) -> int:
    wanted = max(_DRAM_BYTES, min(4 * l3_bytes, 8 * _DRAM_BYTES))
    return max(min(wanted, memory_available() // 8), 16 << 20)


def _working_sets(hardware: Hardware) -> tuple[int, int, int, int]:
    """Bytes to read for each level: most of L1, half of L2 and of L3, and far more than any cache."""
    l3 = hardware.l3_bytes // 2 if hardware.l3_bytes else hardware.l2_bytes // 2
    return hardware.l1d_bytes * 3 // 4, hardware.l2_bytes // 2, l3, _dram_bytes(hardware.l3_bytes)


def _bandwidths(hardware: Hardware, vector_bytes: int, address: int) -> list[float]:
    function = _READ(address)
    sets = _working_sets(hardware)
    memory = mmap.mmap(-1, max(sets))
    advise_huge(memory)
    data = (ctypes.c_char * len(memory)).from_buffer(memory)
    ctypes.memset(data, 1, len(memory))  # untouched pages would all be the same page of zeros
    out = (ctypes.c_char * vector_bytes)()
    rates = []
    for size in sets:
        blocks = size // read_block(vector_bytes)

        def run(n: int, blocks: int = blocks) -> None:
            function(ctypes.addressof(data), blocks, n, ctypes.addressof(out))

        rates.append(_rate(run, blocks * read_block(vector_bytes)))
    return rates


def measure_peaks(triple: str, cpu: str, features: str, vector_bytes: int, hardware: Hardware) -> Peaks:
    """Measure on the core this thread runs on; half a second or so. Pin the thread first."""
    text = (
        fma_ir("fma32", 32, vector_bytes) + fma_ir("fma64", 64, vector_bytes) + read_ir("read", vector_bytes)
    )
    code = load_object(compile_ir(text, triple, cpu, features))
    deadline = time.perf_counter() + _WARM_S
    while time.perf_counter() < deadline:
        _fma_rate(32, vector_bytes, code.address("fma32"))
    f32 = _fma_rate(32, vector_bytes, code.address("fma32"))
    f64 = _fma_rate(64, vector_bytes, code.address("fma64"))
    levels = [rate / 1e9 for rate in _bandwidths(hardware, vector_bytes, code.address("read"))]
    return Peaks(f32 / 1e9, f64 / 1e9, *levels)
