"""Padding inside sums, and sums without it."""

import numpy as np
import pytest

from tunesmith.ir import evaluate, flops, needed_flops, parse, without_padding
from tunesmith.ir.expr import Within

CONV = """def f(x: f32[7, 6, 3], w: f32[3, 3, 3, 4]):
    p = pad(x, ((1, 1), (2, 0), (0, 0)))
    y[h, v, o] = sum(p[h + r, v + s, c] * w[r, s, c, o], (r, s, c))
    return y
"""


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.uniform(-1, 1, (7, 6, 3)), "w": rng.uniform(-1, 1, (3, 3, 3, 4))}


def test_sums_without_padding_are_the_same_sums() -> None:
    program = parse(CONV)
    shorter = without_padding(program)
    assert [s.name for s in shorter.stages] == ["y"] and isinstance(shorter.stage("y").body, Within)
    found, expected = (evaluate(p, inputs())["y"] for p in (shorter, program))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


def test_padding_left_out_meets_no_infinity() -> None:
    program, values = parse(CONV), inputs()
    values["w"][0, 0, 0, 0] = np.inf
    multiplied, left_out = (evaluate(p, values)["y"][0, 0] for p in (program, without_padding(program)))
    assert np.isnan(multiplied[0]) and np.isfinite(left_out).all()
    np.testing.assert_allclose(multiplied[1:], left_out[1:], rtol=1e-13, atol=1e-14)


def test_needed_operations_are_counted_one_by_one() -> None:
    program = parse(CONV)
    places = sum(0 <= h + r - 1 < 7 and 0 <= v + s - 2 < 6 for h in range(7) for v in range(6)
                 for r in range(3) for s in range(3))  # fmt: skip
    assert needed_flops(program) == pytest.approx(places * 3 * 4 * 2, abs=1)
    assert flops(program) == 7 * 6 * 9 * 3 * 4 * 2


def test_other_guards_stay_where_they_are() -> None:
    program = parse("def f(x: f32[6]):\n  p = pad(x, ((1, 1),), -1.0)\n  y = sum(p[i], i=8)\n  return y\n")
    assert needed_flops(program) == flops(without_padding(program))


def test_needed_operations_are_those_that_no_kernel_does_without() -> None:
    shapes = "(a: f32[8, 4], b: f32[6, 4])"
    twice = f"def f{shapes}:\n  y[i, j] = sum((a[i, k] - b[j, k]) * (a[i, k] - b[j, k]), k)\n  return y\n"
    assert flops(parse(twice)) == 8 * 6 * 4 * 4
    assert needed_flops(parse(twice)) == 8 * 6 * 4 * 2, "one difference, beside the multiplication"
    outside = f"def f{shapes}:\n  y[i, j] = sum(exp(a[i, k]) * b[j, k], k)\n  return y\n"
    assert needed_flops(parse(outside)) == (8 * 6 + 8) * 4 * 2, "functions of fewer axes, once for each value"
    sums = "def f(a: f32[8, 4]):\n  y[i] = sum(a[i, k], k)\n  return y\n"
    assert needed_flops(parse(sums)) == flops(parse(sums))
