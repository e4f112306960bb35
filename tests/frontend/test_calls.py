"""The text of a named operator: what is refused and what the answer says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunesmith.frontend import operator, operator_text
from tunesmith.ir import LimitError, ProgramError

BAD = {
    "": "an operator is written",
    "matmul(": "not valid syntax",
    "1 + 1": "an operator is written",
    "a.b(1)": "an operator is written",
    "conv2": "did you mean conv2d",
    "foo()": "known are matmul, batch_matmul",
    "matmul(q=1)": r"unexpected keyword argument 'q'; its parameters are matmul\(m=512, n=512",
    "matmul(1, 2, 3, 'f32', 5)": "too many positional arguments; its parameters are",
    "matmul(m=1, **x)": r"\*\* is not supported",
    "matmul(m=1 + 1)": "numbers, strings, True, False or None",
    "matmul(m=__import__('os'))": "numbers, strings, True, False or None",
    "matmul(m=0)": "m must be from 1 to",
    "matmul(m=-1)": "m must be from 1 to",
    "matmul(m='a')": "m must be int",
    "matmul(m=True)": "m must be int",
    "matmul(m=2.0)": "m must be int",
    "matmul(dtype='f16')": "dtype must be f32 or f64, not 'f16'",
    "dense(act='foo')": "act must be None or one of relu",
    "dense(act=1)": "act must be str or None",
    "conv2d(h=2, k=5)": "a window of 5 does not fit in 2 padded by 0",
    "group_conv2d(groups=3)": "groups=3 must divide ci=64",
    "layer_norm(eps='x')": "eps must be float",
}


@pytest.mark.parametrize("text", BAD)
def test_refused(text: str) -> None:
    with pytest.raises(ProgramError, match=BAD[text]):
        operator(text)


def test_too_large() -> None:
    with pytest.raises(LimitError, match=r"matmul\(m=1000000000000\): a has more than"):
        operator("matmul(m=1000000000000)")
    with pytest.raises(LimitError):
        operator("matmul(" + " " * 5000 + ")")


def test_positional_keyword_and_bare_calls() -> None:
    assert operator_text(" matmul(8, n=4) ") == operator_text("matmul(m=8, n=4, k=512)")
    assert operator_text("matmul") == operator_text("matmul()")
    assert "eps=1" in operator_text("layer_norm(eps=1)")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30) | st.text("matmulconv2d(=,)'13hk -", max_size=30).map("conv2d(h={}".format))
def test_any_text(text: str) -> None:
    try:
        operator(text)
    except ProgramError as e:
        str(e).encode()


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("matmul(8, 0, 8)", 1, 11),
        ("  matmul(8, k=-1)", 1, 15),
        ("\n matmul(8,\n  k=x)", 3, 5),
        ("nope(1)", 1, 1),
        ("matmul(1, 2, 3, 'f32', 5)", 1, 1),
        ("matmul(1", 1, 1),
    ],
)
def test_errors_say_where(text: str, line: int, column: int) -> None:
    with pytest.raises(ProgramError) as caught:
        operator(text)
    assert (caught.value.line, caught.value.column) == (line, column)
