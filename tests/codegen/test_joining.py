"""Rows whose reductions across lanes share their shuffles: every size, every reducer, NaN in its own row."""

import numpy as np
import pytest
from codegen_kernels import compiled, host, old_pc

from tunesmith.codegen import ir_text
from tunesmith.ir import Program, parse
from tunesmith.schedule import RFactor, Schedule, Split, Tail, Unroll, Vectorize, lower

REDUCERS = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min,
    "fmax": np.fmax.reduce, "fmin": np.fmin.reduce,
}  # fmt: skip
SIZES = [(2, 2), (2, 8), (4, 4), (4, 16), (8, 8), (8, 16), (16, 16), (8, 32)]


def blocked(program: Program, rows: int, lanes: int) -> Schedule:
    """Blocks of rows, each with as many partial results as lanes."""
    return Schedule(
        (
            RFactor("y", "k", lanes),
            Vectorize("y.rf", "lane"),
            Split("y", "i", (rows,), Tail.PEEL),
            Unroll("y", "i.1"),
            Vectorize("y", "lane"),
        )
    )


def program_of(reducer: str, dtype: str, rows: int, columns: int) -> Program:
    return parse(f"def f(x: {dtype}[{rows}, {columns}]):\n    y[i] = {reducer}(x[i, k], k)\n    return y\n")


@pytest.mark.parametrize("reducer", REDUCERS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("rows", "lanes"), SIZES)
def test_rows_keep_to_themselves(reducer: str, dtype: str, rows: int, lanes: int) -> None:
    program = program_of(reducer, dtype, 3 * rows + 1, 3 * lanes)
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, (3 * rows + 1, 3 * lanes)).astype(np.dtype(dtype.replace("f", "float")))
    x[1::3] *= -1
    x[rows, lanes] = np.nan
    for target in (host(), old_pc()) if host().arch.startswith("x86") else (host(),):
        got = compiled(lower(program, blocked(program, rows, lanes)), target)(x=x)
        exact = REDUCERS[reducer](x.astype(np.float64), axis=1)
        np.testing.assert_allclose(got, exact, rtol=1e-5 if dtype == "f32" else 1e-13)


def test_shuffles_are_shared() -> None:
    """Eight rows of sixteen lanes: seven times two vectors beside each other, and one fold."""
    program = program_of("max", "f32", 8, 64)
    text = ir_text(lower(program, blocked(program, 8, 16)), host())
    assert text.count("shufflevector <16 x float>") <= 2 * 7 + 2
    assert "extractelement" not in text
