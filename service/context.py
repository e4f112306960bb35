"""What the routes work with, handed to them by FastAPI."""

import hashlib
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Query, Request, Response
from pydantic import BaseModel

from tunesmith.db import Store
from tunesmith.service.auth import Principal
from tunesmith.service.events import EventHub
from tunesmith.service.jobs import JobRunner
from tunesmith.service.metrics import Metrics
from tunesmith.service.pulse import Pulse
from tunesmith.service.settings import Settings
from tunesmith.service.sweeper import Sweeper

__all__ = [
    "Context",
    "Cursor",
    "Here",
    "IdempotencyKey",
    "IfNoneMatch",
    "Limit",
    "NextPage",
    "Who",
    "answer",
    "etag_matches",
    "version_of",
]


@dataclass(frozen=True, slots=True)
class Context:
    """Made when the application starts, closed when it ends. ``runner`` is None where no jobs are run."""

    settings: Settings
    store: Store
    runner: JobRunner | None
    events: EventHub
    sweeper: Sweeper
    pulse: Pulse
    metrics: Metrics


def _context(request: Request) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


def _principal(request: Request) -> Principal:
    principal = request.scope["principal"]
    assert isinstance(principal, Principal)
    return principal


Here = Annotated[Context, Depends(_context)]
Who = Annotated[Principal, Depends(_principal)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Repeating a request with the same key within 24 hours gives the answer of the first.",
    ),
]
IfNoneMatch = Annotated[str | None, Header(max_length=1000, description="ETag of the client's copy.")]
Limit = Annotated[int, Query(ge=1, le=500, description="At most so many items.")]
Cursor = Annotated[
    str | None, Query(max_length=1000, description="`next_cursor` of a page of the same query.")
]


class _NextPage:
    """Puts a ``Link`` to the next page, if there is one, into the answer's headers (RFC 8288)."""

    def __init__(self, request: Request, response: Response) -> None:
        self._url = request.url
        self._headers = response.headers

    def __call__(self, cursor: str | None) -> str | None:
        if cursor is not None:
            url = self._url.include_query_params(cursor=cursor)
            self._headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
        return cursor


NextPage = Annotated[_NextPage, Depends()]


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Whether the client's copy is current (RFC 9110 §13.1.2, weak comparison)."""
    if if_none_match is None:
        return False
    known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in known or etag in known


def answer(view: BaseModel, if_none_match: str | None) -> Response:
    """The view with a tag of its own text, or 304 when that is what the client has."""
    text = view.model_dump_json().encode()
    headers = {"ETag": f'"{hashlib.sha256(text).hexdigest()[:32]}"', "Cache-Control": "no-cache"}
    if etag_matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(text, media_type="application/json", headers=headers)


def version_of(if_match: str | None, current: int) -> int | None:
    """The version that a change is meant for (RFC 9110 §13.1.1), None for any.

    One of several is ``current`` if that is among them. What is no version of ours is 0, which none has.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    known = [tag.strip().removeprefix('"v').removesuffix('"') for tag in if_match.split(",")]
    versions = [int(tag) for tag in known if tag.isdecimal() and len(tag) < 10]
    return current if current in versions else next(iter(versions), 0)
