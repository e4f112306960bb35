import pytest

from tunesmith.ir import DType, dominant_dtype, flops, min_bytes, parse

CASES = [
    ("a: f32[3, 5], b: f32[5, 7]", "a @ b", 2 * 3 * 5 * 7),
    ("a: f32[3, 5]", "sum(a, axis=1)", 15),
    ("a: f32[3, 5]", "sum(a[i, j] * a[i, j], j)", 30),
    ("a: f32[3, 5]", "relu(a)", 15),
    ("a: f32[3, 5], b: f32[5]", "relu(a * b + 1)", 45),
    ("a: f32[3, 5]", "exp(-a) / 2", 45),
    ("a: f32[3, 5]", "where(a > 0, a, 2)", 15),
    ("a: f32[3, 5]", "pad(a, ((1, 1), (0, 0)))", 0),
    ("a: f32[3, 5]", "a.T", 0),
    ("a: f32[3, 5]", "mean(a, axis=1)", 15 + 3),
]


@pytest.mark.parametrize(("signature", "expression", "count"), CASES)
def test_flops(signature: str, expression: str, count: int) -> None:
    assert flops(parse(f"def f({signature}):\n    return {expression}")) == count


def test_bytes_are_inputs_and_outputs() -> None:
    p = parse("def f(a: f32[3, 5], b: f64[2]):\n    t = a * 2\n    return t + 1, b * 3, t")
    assert min_bytes(p) == 60 + 16 + 60 + 16 + 60
    assert dominant_dtype(p) is DType.F32
