import pytest
from ir_samples import CONV, TEXTS

from tunesmith.ir import format_program, parse, workload_hash


def test_a_convolution() -> None:
    assert (
        format_program(parse(CONV))
        == """\
def conv(x: f32[1, 6, 7, 4], w: const[f32[3, 3, 4, 5]], b: const[f32[5]]):
    p[i0:1, i1:8, i2:9, i3:4] = where(i1 - 1 >= 0 and -i1 + 6 >= 0 and i2 - 1 >= 0 and -i2 + 7 >= 0, \
x[i0, i1 - 1, i2 - 1, i3], 0.0)
    y[n, h:6, v:7, o] = sum(p[n, h + r, s + v, c] * w[r, s, c, o], (r, s, c))
    out[i0, i1, i2, i3] = max(y[i0, i1, i2, i3] + b[i3], 0.0)
    return out
"""
    )


@pytest.mark.parametrize("text", TEXTS)
def test_samples_read_back(text: str) -> None:
    p = parse(text)
    again = parse(format_program(p))
    assert workload_hash(again) == workload_hash(p)
    assert [s.name for s in again.stages] == [s.name for s in p.stages]


def test_axes_that_are_called_like_tensors_get_other_names() -> None:
    p = parse("def f(i0: f32[4], i: f32[4]):\n    return i0 + i, max(i0, axis=0)")
    assert workload_hash(parse(format_program(p))) == workload_hash(p)
