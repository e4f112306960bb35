"""Whether the process lives, whether it can work, and what it does."""

from typing import Any

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from tunesmith.service.context import Here
from tunesmith.service.gauges import gauges
from tunesmith.service.metrics import CONTENT_TYPE
from tunesmith.service.schemas import Health

__all__ = ["livez", "metrics", "readyz", "router"]

router = APIRouter(tags=["health"])

_PAGE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "The text format."}
}


@router.get("/livez")
async def livez() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz")
async def readyz(here: Here) -> Health:
    """The database answers and the worker runs; otherwise 503."""
    await here.pulse.ping()
    if here.runner is not None and not here.runner.alive:
        raise HTTPException(503, "The worker has stopped; restart the service.")
    return Health()


@router.get("/metrics", response_class=Response, responses=_PAGE)
async def metrics(here: Here) -> Response:
    """Figures for Prometheus. Those of the database are some seconds old."""
    page = here.metrics.text(gauges(here, await here.pulse.reading()))
    return Response(page, media_type=CONTENT_TYPE)
