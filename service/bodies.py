"""Bodies of requests: read whole and unpacked, within limits, before anything of them is parsed."""

import zlib
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunesmith.service.errors import ProblemType, problem
from tunesmith.service.settings import Limits

__all__ = ["BodyGuard"]

_DROPPED = 16  # times the limit
_TOO_LARGE = ProblemType("body-too-large", 413, "The request is too large")
_MEDIA_TYPE = ProblemType("unsupported-media-type", 415, "The body is of another type")
_DAMAGED = ProblemType("bad-encoding", 400, "The body cannot be unpacked")
_JSON = ("application/json",)
_LINES = (*_JSON, "application/x-ndjson", "application/jsonl")
_BYTES = ("application/octet-stream", "application/zip")


@dataclass(frozen=True, slots=True)
class _Accepted:
    """What is accepted below a path; ``limit`` in bytes."""

    path: str
    limit: int
    types: tuple[str, ...]


@dataclass
class _Refusal(Exception):
    kind: ProblemType
    detail: str
    headers: dict[str, str]


class BodyGuard:
    """Larger bodies are refused with 413, those of other types or encodings than a route reads with 415.

    ``Content-Encoding: gzip`` is unpacked piece by piece, so that a bomb costs no more than a body of the
    limit's size. What goes beyond is read and dropped, up to a point: closing a connection on which data
    still arrives resets it, and the client never sees the answer.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._accepted = (
            _Accepted("/v1/records", limits.upload_bytes, _LINES),
            _Accepted("/v1/models", limits.model_bytes, _BYTES),
            _Accepted("", limits.body_bytes, _JSON),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        accepted = next(a for a in self._accepted if scope["path"].startswith(a.path))
        try:
            body = await _read(scope, receive, accepted)
        except _Refusal as refusal:
            answer = problem(refusal.kind, refusal.detail, scope["trace_id"], refusal.headers)
            await answer(scope, receive, send)
            return
        unread = [body]

        async def replay() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        await self._app(scope, replay, send)


async def _read(scope: Scope, receive: Receive, accepted: _Accepted) -> bytes:
    headers = Headers(scope=scope)
    packed = await _received(headers, receive, accepted.limit)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise _Refusal(_MEDIA_TYPE, "A body may be packed with gzip only.", {"Accept-Encoding": "gzip"})
    body = _unpacked(packed, accepted.limit) if encoding == "gzip" and packed else packed
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind not in accepted.types:
        detail = f"The Content-Type must be {' or '.join(accepted.types)}."
        raise _Refusal(_MEDIA_TYPE, detail, {"Accept": ", ".join(accepted.types)})
    return body


async def _received(headers: Headers, receive: Receive, limit: int) -> bytes:
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > _DROPPED * limit:
        raise _too_large(limit)
    body, size = bytearray(), 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if size <= limit:
            body += message.get("body", b"")
        if not message.get("more_body", False):
            break
        if size > _DROPPED * limit:
            raise _too_large(limit)
    if size > limit:
        raise _too_large(limit)
    return bytes(body)


def _unpacked(packed: bytes, limit: int) -> bytes:
    """The one member of a gzip stream; at most a byte more than the limit is ever unpacked."""
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error as fault:
        raise _Refusal(_DAMAGED, f"The body is no gzip: {fault}.", {}) from None
    if len(body) > limit:
        raise _too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise _Refusal(_DAMAGED, "The body is cut off, or more follows after its end.", {})
    return body


def _too_large(limit: int) -> _Refusal:
    return _Refusal(_TOO_LARGE, f"At most {limit} bytes are accepted, unpacked.", {"Connection": "close"})
