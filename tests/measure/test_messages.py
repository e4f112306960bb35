"""The wire: what goes in comes out, in whatever pieces it arrives."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_ins import specs

from tunesmith.codegen.binary import Binary
from tunesmith.measure.messages import (
    Decoder,
    Message,
    binary_from_json,
    binary_to_json,
    encode,
    read_message,
)

MESSAGES = st.builds(
    Message,
    st.text(),
    st.dictionaries(st.text(min_size=1).filter(lambda k: k not in ("kind", "blobs")), st.integers()),
    st.lists(st.binary()).map(tuple),
)


@settings(max_examples=40)
@given(st.lists(MESSAGES, max_size=4), st.integers(1, 50))
def test_a_stream_in_pieces(messages: list[Message], piece: int) -> None:
    data = b"".join(encode(m) for m in messages)
    decoder = Decoder()
    pieces = (data[i : i + piece] for i in range(0, len(data), piece))
    assert [m for p in pieces for m in decoder.feed(p)] == messages


@given(MESSAGES)
def test_a_blocking_stream(message: Message) -> None:
    data = encode(message)
    stream = io.BytesIO(data)
    assert read_message(stream) == message
    assert read_message(stream) is None
    assert read_message(io.BytesIO(data[:-1])) is None


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 8, b"\x02\x00\x00\x00[]", b"\x02\x00\x00\x00{}", b"\x01\0\0\0?"]
)
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(ValueError):
        list(Decoder().feed(garbage))


def test_a_binary_keeps_all() -> None:
    binary = Binary(b"code", specs(7), needs_openmp=True)
    assert binary_from_json(binary_to_json(binary), b"code") == binary
