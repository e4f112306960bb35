"""What is built for other programs: linked and called by C, under names that C allows."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tunesmith.ir import TunesmithError, parse
from tunesmith.measure import detect_target
from tunesmith.records import Measurement, Protocol, Record, Status, new_id, utc_now
from tunesmith.search.default import default_schedule
from tunesmith.tuning import artifact, workload_of
from tunesmith.tuning.c_names import argument_names, symbol_name
from tunesmith.tuning.workload import versions

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

MAIN = """\
#include <stdio.h>
#include "scale.h"
#include "kernel_.h"

int main(void) {
    float x[3] = {1, 2, 3}, y[3], z[3];
    if (scale(x, y) || kernel_(y, x, z)) return 1;
    printf("%g %g %g\\n", z[0], z[1], z[2]);
    return 0;
}
"""


def record_of(text: str) -> Record:
    workload, form = workload_of(parse(text))
    target = detect_target(1)
    schedule = default_schedule(form, target)
    return Record(
        new_id(), workload, target, schedule.to_json(), schedule.hash, Measurement(Status.OK, (1e-6,)),
        Protocol(), 0, 0, utc_now(), versions(),
    )  # fmt: skip


SCALE = "def scale(x: f32[3]):\n    return x * 2"
KERNEL = "def kernel(int: f32[3], packed: f32[3]):\n    return int - packed"


def test_objects_of_two_kernels_link_into_one_program(tmp_path: Path) -> None:
    for name, text in (("scale", SCALE), ("kernel_", KERNEL)):
        record = record_of(text)
        (tmp_path / f"{name}.o").write_bytes(artifact(record, "object"))
        (tmp_path / f"{name}.h").write_bytes(artifact(record, "header"))
    (tmp_path / "main.c").write_text(MAIN)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(
        ["cc", *strict, "main.c", "scale.o", "kernel_.o", "-lm", "-o", "main"], cwd=tmp_path, check=True
    )
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "1 2 3\n"


def test_a_library_exports_its_function_alone(tmp_path: Path) -> None:
    path = tmp_path / "libmine.so"
    path.write_bytes(artifact(record_of(SCALE), "library", name="mine"))
    library = ctypes.CDLL(str(path))
    x, y = np.arange(3, dtype=np.float32), np.empty(3, np.float32)
    assert library.mine(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data)) == 0
    np.testing.assert_array_equal(y, 2 * x)
    for hidden in ("ts_run", "ts_repeat", "kernel"):
        with pytest.raises(AttributeError):
            getattr(library, hidden)


def test_names_that_c_has_taken() -> None:
    assert [symbol_name(n) for n in ("dense", "free", "int", "exp", "2d", "ä b")] == [
        "dense", "free_", "int_", "exp_", "kernel_2d", "__b",
    ]  # fmt: skip
    assert len(symbol_name("9" * 500)) == 100
    assert argument_names(["x", "int", "int_", "packed"]) == {
        "x": "x", "int": "int__", "int_": "int_", "packed": "packed_",
    }  # fmt: skip
    with pytest.raises(TunesmithError, match="choose another name"):
        artifact(record_of(SCALE), "header", name="free")
