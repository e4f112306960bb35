"""Shared libraries that run with no Python and no Tunesmith: a C function, its header, and the linking."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tunesmith.codegen import llvm
from tunesmith.codegen.binary import PREPARE, REPEAT, RUN
from tunesmith.codegen.builder import ir_text, needs_openmp
from tunesmith.ir.dtypes import DType
from tunesmith.ir.errors import TunesmithError
from tunesmith.ir.loopnest import Buffer, LoopNest, Role
from tunesmith.records import Target

__all__ = ["LinkError", "header_text", "library_ir", "link_library"]

_C_TYPES = {DType.F32: "float", DType.F64: "double"}


class LinkError(TunesmithError):
    """The host's C compiler is missing or refused to link; the message says which."""


def _arguments(nest: LoopNest) -> list[Buffer]:
    return [b for b in nest.buffers if b.role in (Role.INPUT, Role.OUTPUT)]


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def header_text(nest: LoopNest, name: str) -> str:
    """The C header of a kernel's library."""
    packed = any(b.role is Role.PACKED for b in nest.buffers)
    args = ", ".join(
        f"{'const ' if b.role is Role.INPUT else ''}{_C_TYPES[b.dtype]} *{_identifier(b.name)}"
        for b in _arguments(nest)
    )
    shapes = "\n".join(
        f" *   {_identifier(b.name)}: {b.dtype}[{', '.join(map(str, b.shape))}]"
        f"{' (result)' if b.role is Role.OUTPUT else ''}"
        for b in _arguments(nest)
    )
    guard = f"{name.upper()}_H"
    extra = ""
    if packed:
        extra = (
            f"\n/* Constant operands can be packed once: {name}_pack fills {name}_packed_bytes() bytes,"
            f"\n * aligned to 64, from them; {name}_packed then takes those bytes with each call. */\n"
            f"size_t {name}_packed_bytes(void);\n"
            f"void {name}_pack({args}, void *packed);\n"
            f"int {name}_packed({args}, const void *packed);\n"
        )
    return (
        f"#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n\n"
        f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n'
        f"/* Row-major arrays that do not overlap, aligned to their elements:\n{shapes}\n"
        f" * Returns 0, or 1 when memory runs out. */\nint {name}({args});\n{extra}\n"
        f"#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    )


def _align(size: int) -> int:
    return (size + 63) // 64 * 64


def _function(nest: LoopNest, symbol: str, target_symbol: str, given_packed: bool, pack_first: bool) -> str:
    """A C function that lays out the pointer array, with its workspace on the heap."""
    args = _arguments(nest)
    owned = [b for b in nest.buffers if b.role is Role.TEMP or (b.role is Role.PACKED and not given_packed)]
    params = ", ".join(
        ["ptr %" + f"arg{i}" for i in range(len(args))] + (["ptr %packed"] if given_packed else [])
    )
    total = sum(_align(b.size_bytes) for b in owned)
    count = len(nest.buffers)
    lines = [
        f"define i32 @{symbol}({params}) #0 {{",
        "entry:",
        f"  %buffers = alloca [{count} x ptr], align 16",
    ]
    if total:
        lines += [
            f"  %space = call ptr @aligned_alloc(i64 64, i64 {total})",
            "  %none = icmp eq ptr %space, null",
            "  br i1 %none, label %failed, label %go",
            "failed:",
            "  ret i32 1",
            "go:",
        ]
    offset = {"%space": 0, "%packed": 0}
    positions = {b.name: i for i, b in enumerate(args)}
    for i, b in enumerate(nest.buffers):
        pointer = f"%arg{positions[b.name]}" if b.name in positions else f"%ptr{i}"
        if b.name not in positions:
            base = "%packed" if b.role is Role.PACKED and given_packed else "%space"
            lines.append(f"  {pointer} = getelementptr inbounds i8, ptr {base}, i64 {offset[base]}")
            offset[base] += _align(b.size_bytes)
        lines.append(f"  %slot{i} = getelementptr inbounds ptr, ptr %buffers, i64 {i}")
        lines.append(f"  store ptr {pointer}, ptr %slot{i}, align 8")
    if pack_first:
        lines.append(f"  call void @{PREPARE}(ptr %buffers)")
    lines.append(f"  call void @{target_symbol}(ptr %buffers)")
    if total:
        lines.append("  call void @free(ptr %space)")
    return "\n".join([*lines, "  ret i32 0", "}"])


def library_ir(nest: LoopNest, name: str, target: Target) -> str:
    """LLVM IR of a kernel with its C functions exported and all else hidden."""
    text = ir_text(nest, target)
    for symbol in (RUN, REPEAT, PREPARE):
        text = text.replace(f"define void @{symbol}(", f"define hidden void @{symbol}(")
    packed = [b for b in nest.buffers if b.role is Role.PACKED]
    parts = [text, "declare ptr @aligned_alloc(i64, i64)", "declare void @free(ptr)"]
    parts.append(_function(nest, name, RUN, False, bool(packed)))
    if packed:
        size = sum(_align(b.size_bytes) for b in packed)
        parts.append(f"define i64 @{name}_packed_bytes() #0 {{\n  ret i64 {size}\n}}")
        parts.append(_function(nest, f"{name}_pack", PREPARE, True, False))
        parts.append(_function(nest, f"{name}_packed", RUN, True, False))
    return "\n\n".join(parts)


def link_library(nest: LoopNest, name: str, target: Target) -> bytes:
    """A shared library of one kernel. Raises LinkError, llvm.BuildError."""
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        raise LinkError("no C compiler found to link with: install gcc or clang, or take the object instead")
    code = llvm.compile_ir(library_ir(nest, name, target), target.triple, target.cpu, target.features)
    with tempfile.TemporaryDirectory(prefix="tunesmith-") as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(code)
        command = [compiler, "-shared", "-Wl,-Bsymbolic", "-o", str(result), str(source)]
        if needs_openmp(code):
            command.append("-l:libgomp.so.1")
        command.append("-lm")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise LinkError(f"{compiler} cannot link the library: {e}") from None
        if done.returncode:
            raise LinkError(f"{compiler} cannot link the library: {done.stderr.strip()[-2000:]}")
        return result.read_bytes()
