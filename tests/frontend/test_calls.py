"""The text of a named operator: what is refused and what the answer says."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunesmith.frontend import operator, operator_text, ops
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
    "conv2d(stride=0)": "stride must be from 1 to",
    "conv2d(stride=-2)": "stride must be from 1 to",
    "conv2d(pad=-1)": "pad must be from 0 to",
    "conv2d(dilation=0)": "dilation must be from 1 to",
    "conv2d(h=7, w=1, k=3)": "a window of 3 does not fit in 1 padded by 0",
    "conv2d(h=7, k=3, dilation=4)": "a window of 9 does not fit in 7",
    "conv3d(d=1, k=2)": "a window of 2 does not fit in 1",
    "max_pool2d(h=2, k=3)": "a window of 3 does not fit in 2",
    "avg_pool2d_nchw(k=0)": "k must be from 1 to",
    "conv2d_capsule(h=1, pad=0)": "a window of 3 does not fit in 1",
    "group_conv2d(groups=0)": "groups must be from 1 to",
    "depthwise_conv2d(factor=0)": "factor must be from 1 to",
    "matmul(ta=1)": "ta must be bool",
    "layer_norm(eps='x')": "eps must be float",
    "layer_norm(eps=-1.0)": "eps must be a finite number from 0",
    "layer_norm(eps=1e999)": "eps must be a finite number from 0",
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


TOO_LARGE = (
    "matmul(1099511627776, 1099511627776, 1099511627776)",  # each extent within its limit, no product
    "matmul(1048576, 1048576, 1099511627776)",
    "conv2d(n=1099511627776, h=1099511627776, w=1099511627776)",
    "conv2d(pad=1099511627776)",
    "conv2d(k=1099511627776, pad=1099511627776)",
    "attention(h=1, m=1099511627776, d=1)",
)


@pytest.mark.parametrize("text", TOO_LARGE)
def test_sizes_that_overflow(text: str) -> None:
    with pytest.raises(LimitError):
        operator(text)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.conv2d(stride=0),
        lambda: ops.conv2d(h="7"),
        lambda: ops.matmul(m=2.5),
        lambda: ops.matmul(8, 8, 8, 8, 8),
        lambda: ops.layer_norm(eps=float("nan")),
        lambda: ops.softmax(dtype="f16"),
    ],
)
def test_functions_check_the_same(call: Callable[[], object]) -> None:
    with pytest.raises(ProgramError):
        call()


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
