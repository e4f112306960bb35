"""The layer over LLVM: text in, machine code out, and faults as BuildError."""

import ctypes

import pytest

from tunesmith.codegen.llvm import (
    BuildError,
    assembly,
    compile_ir,
    host,
    llvm_version,
    load_object,
    load_openmp,
    optimised_ir,
)

SQUARE = """
define i32 @square(i32 %x) {
  %slot = alloca i32
  store i32 %x, ptr %slot
  %y = load i32, ptr %slot
  %z = mul i32 %y, %x
  ret i32 %z
}
"""
CALLS = """
declare double @cos(double)
define double @f(double %x) {
  %y = call double @cos(double %x)
  ret double %y
}
"""
PARALLEL = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
define void @body(ptr %p) {
  %old = atomicrmw add ptr %p, i32 1 seq_cst
  ret void
}
define void @f(ptr %p) {
  call void @GOMP_parallel(ptr @body, ptr %p, i32 2, i32 0)
  ret void
}
"""


def test_compiled_code_runs() -> None:
    code = load_object(compile_ir(SQUARE, *host()))
    square = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(code.address("square"))
    assert square(7) == 49


def test_code_may_call_the_process() -> None:
    code = load_object(compile_ir(CALLS, *host()))
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))(0.0) == 1.0


def test_many_objects_with_the_same_names_live_side_by_side() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int32)
    texts = [f"define i32 @f() {{\n  ret i32 {n}\n}}\n" for n in range(20)]
    codes = [load_object(compile_ir(text, *host())) for text in texts]
    assert [kind(c.address("f"))() for c in codes] == list(range(20))
    del codes[::2]
    assert [kind(c.address("f"))() for c in codes] == list(range(1, 20, 2))


def test_openmp() -> None:
    assert load_openmp() == load_openmp()
    code = load_object(compile_ir(PARALLEL, *host()))
    counter = ctypes.c_int32(0)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("f"))(ctypes.addressof(counter))
    assert counter.value == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "expected top-level entity"),
        ("define void @f() {\n  %x = add i32 1, 1.0\n  ret void\n}", "<string>:2:"),
        ("define i32 @f(i1 %c) {\ne:\n br i1 %c, label %a, label %b\na:\n %x = add i32 1, 1\n br label %b\n"
         "b:\n ret i32 %x\n}", "does not dominate"),
    ],
)  # fmt: skip
def test_faults_of_the_text(text: str, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        compile_ir(text, *host())


@pytest.mark.parametrize("code", [b"", b"garbage", compile_ir(SQUARE, *host())[:200]])
def test_broken_objects(code: bytes) -> None:
    with pytest.raises(BuildError, match="cannot load"):
        load_object(code)


def test_missing_symbols() -> None:
    code = load_object(compile_ir(SQUARE, *host()))
    with pytest.raises(BuildError, match="cannot link cube"):
        code.address("cube")
    needy = load_object(
        compile_ir("declare void @gone()\ndefine void @f() {\n call void @gone()\n ret void\n}", *host())
    )
    with pytest.raises(BuildError, match="cannot link f"):
        needy.address("f")


def test_the_short_pipeline_promotes_slots() -> None:
    assert "alloca" not in optimised_ir(SQUARE, *host())
    assert "alloca" in optimised_ir(SQUARE, *host(), passes=())
    with pytest.raises(ValueError, match="unknown passes"):
        optimised_ir(SQUARE, *host(), passes=("magic",))


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "word"),
    [
        ("aarch64-linux-gnu", "neoverse-n1", "+neon", "mul\tw0"),
        ("riscv64-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c", "mul"),
        ("x86_64-linux-gnu", "x86-64-v3", "", "imul"),
    ],
)
def test_cross_targets(triple: str, cpu: str, features: str, word: str) -> None:
    assert word in assembly(SQUARE, triple, cpu, features)
    assert compile_ir(SQUARE, triple, cpu, features).startswith(b"\x7fELF")


def test_unknown_targets() -> None:
    with pytest.raises(BuildError, match="unknown target"):
        compile_ir(SQUARE, "pdp11-unknown", "", "")


def test_the_version_names_llvm() -> None:
    assert "LLVM" in llvm_version()
