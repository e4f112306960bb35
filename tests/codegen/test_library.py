"""Shared libraries, called by programs in C."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from codegen_kernels import Array, host, nest_of, random_inputs

from tunesmith.codegen import library
from tunesmith.codegen.library import LinkError, header_text, library_ir, link_library
from tunesmith.ir import LoopNest, Program, evaluate
from tunesmith.schedule import PREPARE, Pack, Parallel, Reorder, Vectorize

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

DENSE = """
def dense(x: f32[5, 12], w: const[f32[7, 12]], b: f32[7]):
    y[i, j] = sum(x[i, k] * w[j, k], k)
    return relu(y[i, j] + b[j])
"""

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "dense.h"
#ifdef OTHER
#include "scale.h"
#endif

static float x[5 * 12], w[7 * 12], b[7], out[5 * 7];

int main(void) {
    if (fread(x, 4, 60, stdin) != 60 || fread(w, 4, 84, stdin) != 84 || fread(b, 4, 7, stdin) != 7) return 2;
#ifdef PACKED
    void *packed = aligned_alloc(64, (dense_packed_bytes() + 63) / 64 * 64);
    dense_pack(x, w, b, out, packed);
    for (int i = 0; i < 84; i++) w[i] = 1e9f; /* it is not read any more */
    if (dense_packed(x, w, b, out, packed)) return 1;
    free(packed);
#else
    if (dense(x, w, b, out)) return 1;
#endif
#ifdef OTHER
    float twice[5 * 7];
    if (scale(out, twice)) return 1;
    fwrite(twice, 4, 35, stdout);
#endif
    fwrite(out, 4, 35, stdout);
    return 0;
}
"""


def plain(threads: int = 1) -> tuple[Program, LoopNest]:
    steps = (Parallel("out", "i"),) if threads > 1 else ()
    return nest_of(DENSE, Vectorize("out", "j"), *steps)


def packing() -> tuple[Program, LoopNest]:
    steps = (Reorder("y", ("i", "k", "j")), Vectorize("y", "j"), Pack("y", "w", ("y.k", "y.j"), PREPARE))
    return nest_of(DENSE, *steps)


def run_c(folder: Path, inputs: dict[str, Array], *flags: str) -> Array:
    """Build MAIN against the libraries in the folder with every warning an error, and run it."""
    (folder / "main.c").write_text(MAIN)
    libraries = [str(p) for p in sorted(folder.glob("*.so"))]
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command = [str(COMPILER), *strict, *flags, "main.c", *libraries, "-Wl,-rpath,$ORIGIN", "-o", "main"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    data = b"".join(inputs[n].tobytes() for n in "xwb")
    out = subprocess.run([str(folder / "main")], input=data, capture_output=True, timeout=60, check=True)
    return np.frombuffer(out.stdout, np.float32).reshape(-1, 5, 7)


def put(folder: Path, nest: LoopNest, name: str, threads: int = 1) -> None:
    (folder / f"{name}.so").write_bytes(link_library(nest, name, host(threads)))
    (folder / f"{name}.h").write_text(header_text(nest, name))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_c_program_calls_a_kernel(tmp_path: Path, threads: int) -> None:
    program, nest = plain(threads)
    put(tmp_path, nest, "dense", threads)
    inputs = random_inputs(program)
    (result,) = run_c(tmp_path, inputs)
    np.testing.assert_allclose(result, evaluate(program, inputs)["out"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("flags", [(), ("-DPACKED",)])
def test_packed_operands_are_packed_with_each_call_or_once(tmp_path: Path, flags: tuple[str, ...]) -> None:
    program, nest = packing()
    put(tmp_path, nest, "dense")
    inputs = random_inputs(program)
    (result,) = run_c(tmp_path, inputs, *flags)
    np.testing.assert_allclose(result, evaluate(program, inputs)["out"], rtol=1e-5, atol=1e-5)


def test_two_libraries_in_one_process(tmp_path: Path) -> None:
    program, nest = packing()
    put(tmp_path, nest, "dense")
    _, other = nest_of("def scale(x: f32[5, 7]):\n    y = x * 2\n    return y\n")
    put(tmp_path, other, "scale")
    inputs = random_inputs(program)
    twice, result = run_c(tmp_path, inputs, "-DOTHER")
    expected = evaluate(program, inputs)["out"]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(twice, 2 * expected, rtol=1e-5, atol=1e-5)


def test_a_library_gives_away_its_own_names_only(tmp_path: Path) -> None:
    _, nest = packing()
    put(tmp_path, nest, "dense")
    code = ctypes.CDLL(str(tmp_path / "dense.so"))
    assert all(hasattr(code, n) for n in ("dense", "dense_pack", "dense_packed", "dense_packed_bytes"))
    assert not any(hasattr(code, n) for n in ("ts_run", "ts_repeat", "ts_prepare", "kernel"))


def needed(file: Path) -> str:
    tool = shutil.which("readelf") or shutil.which("objdump")
    if tool is None:
        pytest.skip("needs readelf or objdump")
    flag = "-d" if tool.endswith("readelf") else "-p"
    return subprocess.run([tool, flag, str(file)], capture_output=True, text=True, check=True).stdout


def test_a_library_depends_on_openmp_only_if_it_has_parallel_code(tmp_path: Path) -> None:
    put(tmp_path, plain(1)[1], "one", 2)
    put(tmp_path, plain(2)[1], "two", 2)
    assert "libgomp" not in needed(tmp_path / "one.so")
    assert "libgomp" in needed(tmp_path / "two.so")


def test_headers_are_valid_in_cpp(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    (tmp_path / "dense.h").write_text(header_text(packing()[1], "dense"))
    (tmp_path / "main.cpp").write_text('#include "dense.h"\n#include "dense.h"\n')
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "main.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_memory_is_asked_for_once_and_given_back() -> None:
    text = library_ir(packing()[1], "dense", host())
    assert text.count("call ptr @aligned_alloc") == text.count("call void @free") > 0


def test_without_a_compiler_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    with pytest.raises(LinkError, match="install gcc or clang"):
        link_library(plain()[1], "dense", host())
