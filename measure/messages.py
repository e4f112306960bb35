"""Messages between a tuner and its workers: a JSON header and raw bytes. No code, no pickles.

message = length of header (4 bytes, little endian), header (JSON object), blobs…
header  = {"kind": …, "blobs": [length of each blob], …}
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tunesmith.codegen.binary import Binary, BufferSpec
from tunesmith.ir.dtypes import DType
from tunesmith.ir.loopnest import Role

__all__ = [
    "Decoder",
    "Message",
    "binary_from_json",
    "binary_to_json",
    "encode",
    "read_message",
]

_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Message:
    kind: str
    header: Mapping[str, Any] = field(default_factory=dict)
    blobs: tuple[bytes, ...] = ()


def encode(message: Message) -> bytes:
    sizes = [len(b) for b in message.blobs]
    header = json.dumps({**message.header, "kind": message.kind, "blobs": sizes}).encode()
    return b"".join([len(header).to_bytes(4, "little"), header, *message.blobs])


def _split(header: bytes) -> tuple[dict[str, Any], list[int]]:
    fields = json.loads(header)
    if not isinstance(fields, dict) or not {"kind", "blobs"} <= fields.keys():
        raise ValueError("not a message")
    sizes = fields.pop("blobs")
    if sum(sizes) > _LIMIT_BYTES:
        raise ValueError("message too large")
    return fields, sizes


class Decoder:
    """Messages out of a stream that arrives in pieces."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """All messages that are complete with ``data``. ValueError when the stream makes no sense."""
        self._data += data
        while (message := self._take()) is not None:
            yield message

    def _take(self) -> Message | None:
        data = self._data
        if len(data) < 4:
            return None
        start = 4 + int.from_bytes(data[:4], "little")
        if start > _LIMIT_BYTES:
            raise ValueError("message too large")
        if len(data) < start:
            return None
        fields, sizes = _split(bytes(data[4:start]))
        end = start + sum(sizes)
        if len(data) < end:
            return None
        blobs = []
        for size in sizes:
            blobs.append(bytes(data[start : start + size]))
            start += size
        del data[:end]
        return Message(fields.pop("kind"), fields, tuple(blobs))


def _exactly(stream: BinaryIO, size: int) -> bytes | None:
    data = stream.read(size)
    return data if len(data) == size else None


def read_message(stream: BinaryIO) -> Message | None:
    """The next message of a blocking stream; None at its end, be it in the middle of a message."""
    length = _exactly(stream, 4)
    header = length and _exactly(stream, int.from_bytes(length, "little"))
    if not header:
        return None
    fields, sizes = _split(header)
    blobs = [_exactly(stream, size) for size in sizes]
    if any(b is None for b in blobs):
        return None
    return Message(fields.pop("kind"), fields, tuple(b for b in blobs if b is not None))


def binary_to_json(binary: Binary) -> dict[str, Any]:
    """All of a binary but its object code, which travels as a blob."""
    buffers = [[b.name, b.role.value, b.dtype.value, list(b.shape), b.const] for b in binary.buffers]
    return {"buffers": buffers, "needs_openmp": binary.needs_openmp}


def binary_from_json(data: Mapping[str, Any], object_code: bytes) -> Binary:
    buffers = tuple(
        BufferSpec(name, Role(role), DType(dtype), tuple(shape), const)
        for name, role, dtype, shape, const in data["buffers"]
    )
    return Binary(object_code, buffers, data["needs_openmp"])
