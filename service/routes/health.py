"""Whether the process lives, and whether it can work."""

from fastapi import APIRouter
from starlette.exceptions import HTTPException

from tunesmith.service.context import Here
from tunesmith.service.schemas import Health

__all__ = ["livez", "readyz", "router"]

router = APIRouter(tags=["health"])


@router.get("/livez")
async def livez() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz")
def readyz(here: Here) -> Health:
    """The database answers and the worker runs; otherwise 503."""
    here.store.ping()
    if here.runner is not None and not here.runner.alive:
        raise HTTPException(503, "The worker has stopped; restart the service.")
    return Health()
