"""Events as they happen: of one job, and of all."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from tunesmith.service.context import Here, Who

__all__ = ["job_events", "list_events", "router"]

router = APIRouter(prefix="/v1", tags=["events"])

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_STREAM: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        **_STREAM,
        "description": "Server-sent events. `event` is `state`, `best` or `progress`; `data` is JSON with"
        " the `job` and when it happened (`at`).",
    }
}
_OVER: dict[int | str, dict[str, Any]] = {
    204: {"description": "The job has ended, and the client knows it all: it need not come back."}
}

After = Annotated[int | None, Query(ge=0, lt=1 << 63, description="As `Last-Event-ID`.")]
LastEventId = Annotated[
    str | None,
    Header(pattern=r"^[0-9]{1,18}$", description="Go on after this event; browsers send it by themselves."),
]


@router.get("/events", response_class=StreamingResponse, responses=_RESPONSES)
async def list_events(
    here: Here, who: Who, after: After = None, last_event_id: LastEventId = None
) -> Response:
    """What happens to all jobs, from now on, or from what came after a known event."""
    known = after if last_event_id is None else int(last_event_id)
    return _streaming(here.events.stream(known, owner=who.sees))


@router.get("/jobs/{job_id}/events", response_class=StreamingResponse, responses=_RESPONSES | _OVER)
async def job_events(
    here: Here, who: Who, job_id: str, after: After = None, last_event_id: LastEventId = None
) -> Response:
    """What happened to a job since it was submitted, then what happens, until it has ended."""
    known = after if last_event_id is None else int(last_event_id)
    job = await asyncio.to_thread(here.store.jobs.get, job_id, owner=who.sees)
    if known is not None and job.done:
        left = await asyncio.to_thread(here.store.events.after, known, job_id=job.id, limit=1)
        if not left:
            return Response(status_code=204)
    return _streaming(here.events.stream(known, job=job))


def _streaming(texts: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(texts, media_type="text/event-stream", headers=_HEADERS)
