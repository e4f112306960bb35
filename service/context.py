"""What the routes work with, handed to them by FastAPI."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request

from tunesmith.db import Store
from tunesmith.service.events import EventHub
from tunesmith.service.jobs import JobRunner
from tunesmith.service.settings import Settings

__all__ = ["Context", "Cursor", "Here", "Limit", "etag_matches", "version_of"]


@dataclass(frozen=True, slots=True)
class Context:
    """Made when the application starts, closed when it ends. ``runner`` is None where no jobs are run."""

    settings: Settings
    store: Store
    runner: JobRunner | None
    events: EventHub


def _context(request: Request) -> Context:
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


Here = Annotated[Context, Depends(_context)]
Limit = Annotated[int, Query(ge=1, le=500, description="At most so many items.")]
Cursor = Annotated[
    str | None, Query(max_length=1000, description="`next_cursor` of a page of the same query.")
]


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Whether the client's copy is current (RFC 9110 §13.1.2, weak comparison)."""
    if if_none_match is None:
        return False
    known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in known or etag in known


def version_of(if_match: str | None, current: int) -> int | None:
    """The version that a change is meant for (RFC 9110 §13.1.1), None for any.

    One of several is ``current`` if that is among them. What is no version of ours is 0, which none has.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    known = [tag.strip().removeprefix('"v').removesuffix('"') for tag in if_match.split(",")]
    versions = [int(tag) for tag in known if tag.isdecimal() and len(tag) < 10]
    return current if current in versions else next(iter(versions), 0)
