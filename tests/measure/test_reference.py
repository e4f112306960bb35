"""What is right: inputs, references, tolerances, comparison."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunesmith.ir import evaluate, parse
from tunesmith.ir.program import Program
from tunesmith.measure import tolerance
from tunesmith.measure.reference import (
    Expected,
    Reference,
    Specials,
    compute_reference,
    make_inputs,
    with_padding_left_out,
)
from tunesmith.measure.verify import compare

PROGRAMS = {
    "matmul": "def f(a: f32[40, 500], b: f32[500, 30]):\n  return a @ b\n",
    "double matmul": "def f(a: f64[40, 500], b: f64[500, 30]):\n  return a @ b\n",
    "sum": "def f(a: f32[4, 20000]):\n  y[i] = sum(a[i, k], k)\n  return y\n",
    "softmax": "def f(x: f32[16, 100]):\n  return softmax(x)\n",
    "layer norm": "def f(x: f32[16, 100], g: f32[100], b: f32[100]):\n  return layer_norm(x, g, b)\n",
    "attention": "def f(q: f32[32, 16], k: f32[32, 16], v: f32[32, 16]):\n  return softmax(q @ k.T) @ v\n",
    "chain": "def f(a: f32[50, 50], b: f32[50, 50]):\n  return a @ b @ a + b - a\n",
    "cancelling": "def f(a: f32[50, 50], b: f32[50, 50]):\n  y = a @ b\n  z = a @ (b + 0)\n  return y - z\n",
    "functions": "def f(x: f32[1000]):\n  return tanh(exp(x) + log(abs(x)) * sigmoid(x))\n",
}


def program(name: str) -> Program:
    return parse(PROGRAMS[name])


def expected(*values: float, tolerance: float = 1e-3, scale: float = 1.0) -> Expected:
    return Expected(np.array(values, np.float32), scale, tolerance)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("specials", [Specials.NONE, Specials.TAME, Specials.WILD])
def test_plain_arithmetic_in_the_programs_own_type_is_right(name: str, specials: str) -> None:
    p = program(name)
    inputs = make_inputs(p, 3, specials)
    reference = compute_reference(p, inputs, evaluate)
    for output, answer in evaluate(p, inputs, None).items():
        error, fault = compare(output, answer, reference.outputs[output])
        assert fault == ""
        assert error <= reference.tolerance


@pytest.mark.parametrize("name", ["matmul", "sum", "softmax", "layer norm", "attention", "chain"])
def test_one_lost_term_is_wrong(name: str) -> None:
    """Change one input value to zero: some output must be out of tolerance."""
    p = program(name)
    inputs = make_inputs(p, 3)
    reference = compute_reference(p, inputs, evaluate)
    first = next(iter(inputs))
    inputs[first] = inputs[first].copy()
    inputs[first].reshape(-1)[7] = 0.0
    (answer,) = evaluate(p, inputs, None).values()
    assert compare("y", answer, reference.outputs[p.outputs[0]])[1]


def test_inputs_are_seeded() -> None:
    p = program("matmul")
    a, b, c = make_inputs(p, 1), make_inputs(p, 1), make_inputs(p, 2)
    assert all((a[n] == b[n]).all() for n in a)
    assert not (a["a"] == c["a"]).all()
    assert a["a"].dtype == np.float32 and a["a"].shape == (40, 500)
    assert -1 <= a["a"].min() < -0.9 and 0.9 < a["a"].max() < 1


def test_specials_are_few() -> None:
    p = program("matmul")
    wild = make_inputs(p, 1, Specials.WILD)["a"]
    assert np.isnan(wild).sum() == 1 and np.isinf(wild).sum() == 2
    tame = make_inputs(p, 1, Specials.TAME)["a"]
    assert np.isfinite(tame).all() and (tame == 0).sum() >= 2 and tame.max() == np.float32(1e9)


def test_tolerance_grows_with_the_reduction() -> None:
    def f(n: int) -> float:
        return tolerance(parse(f"def f(a: f32[4, {n}], b: f32[{n}, 4]):\n  return a @ b\n"))

    eps = float(np.finfo(np.float32).eps)
    assert f(100) == pytest.approx(eps * (8 + 1 + 20))
    assert f(10000) == pytest.approx(eps * (8 + 1 + 200))
    assert tolerance(program("double matmul")) < 1e-13


@pytest.mark.parametrize("function", ["tanh", "sigmoid", "gelu"])
def test_errors_of_a_large_sum_show_in_small_results(function: str) -> None:
    """The sums are 30 times as large as what tanh makes of them, and so are their errors."""
    p = parse(f"def f(a: f32[40, 3000], b: f32[3000, 30]):\n  return {function}(a @ b)\n")
    reference = compute_reference(p, make_inputs(p, 0), evaluate)
    assert (reference.tolerance > 4 * tolerance(p)) == (function != "gelu")
    assert reference.tolerance < 100 * tolerance(p)


def test_a_reference_survives_storing() -> None:
    p = program("softmax")
    reference = compute_reference(p, make_inputs(p, 0), evaluate)
    again = Reference.from_bytes(reference.to_bytes())
    assert again.tolerance == reference.tolerance
    for name, e in reference.outputs.items():
        assert again.outputs[name].scale == e.scale
        assert (again.outputs[name].values == e.values).all()


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_the_expected_values_are_right(values: list[float]) -> None:
    assert compare("y", array(*values), expected(*values))[1] == ""


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        ((1.0, 2.0), (1.0, 2.1), "y[1] is 2, expected 2.0999999 within 0.001; 1 of 2"),
        ((math.nan, 1.0), (1.0, 1.0), "y[0] is nan, expected 1"),
        ((1.0, 1.0), (1.0, math.nan), "y[1] is 1, expected nan"),
        ((math.inf,), (-math.inf,), "y[0] is inf, expected -inf"),
        ((math.inf,), (3.0,), "y[0] is inf, expected 3"),
        ((3.0,), (math.inf,), "y[0] is 3, expected inf"),
        ((math.nan,), (math.inf,), "y[0] is nan, expected inf"),
    ],
)
def test_wrong_values_are_named(got: tuple[float, ...], want: tuple[float, ...], words: str) -> None:
    assert words in compare("y", array(*got), expected(*want))[1]


def test_deviations_are_relative_to_the_scale() -> None:
    assert compare("y", array(0.5), expected(0.0, scale=1000.0)) == (0.0005, "")
    assert compare("y", array(2.0), expected(0.0, scale=1000.0))[1]


def test_places_have_all_their_coordinates() -> None:
    want = Expected(np.zeros((2, 3), np.float32), 1.0, 1e-3)
    got = want.values.copy()
    got[1, 2] = 1
    assert compare("y", got, want)[1].startswith("y[1, 2] is 1,")


def test_padding_may_be_multiplied_or_left_out() -> None:
    body = "  p = pad(x, ((1, 0),))\n  y[i] = sum(p[i + k] * w[k], k)\n  return y\n"
    text = f"def f(x: f32[3], w: f32[2]):\n{body}"
    inputs = {"x": np.ones(3, np.float32), "w": np.array([np.inf, 1], np.float32)}
    plain = compute_reference(parse(text), inputs, evaluate)
    either = with_padding_left_out(plain, parse(text), inputs, evaluate).outputs["y"]
    multiplied, left_out = [math.nan, math.inf, math.inf], [1.0, math.inf, math.inf]
    for answer in (multiplied, left_out):
        assert not compare("y", np.array(answer, np.float32), either)[1]
    assert compare("y", np.array(left_out, np.float32), plain.outputs["y"])[1]
    assert compare("y", np.array([2.0, math.inf, math.inf], np.float32), either)[1]
