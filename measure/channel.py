"""The worker's side of the conversation with its parent."""

import resource
import traceback
from collections.abc import Iterator
from typing import BinaryIO

from tunesmith.measure.messages import Message, encode, read_message

__all__ = ["Channel", "error_text", "resident_bytes"]

_TRACE_CHARACTERS = 2000


class Channel:
    """The worker's side of the conversation. Iterating gives messages until the parent hangs up."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink

    def __iter__(self) -> Iterator[Message]:
        while (message := read_message(self._source)) is not None:
            yield message

    def send(self, message: Message) -> None:
        self._sink.write(encode(message))
        self._sink.flush()


def resident_bytes() -> int:
    """Memory this process occupies now, 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def error_text(error: BaseException, known: tuple[str, ...]) -> str:
    """One line for the kinds of error a candidate is expected to have, a trace for the others."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & set(known):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))[-_TRACE_CHARACTERS:]
