"""The application: guards, routes, errors, and what lives as long as it does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

import tunesmith
from tunesmith.db import open_store
from tunesmith.service import errors, openapi
from tunesmith.service.auth import Gate
from tunesmith.service.bodies import BodyGuard
from tunesmith.service.context import Context
from tunesmith.service.courtesies import HeadRequests, known_parameters
from tunesmith.service.events import EventHub
from tunesmith.service.guards import HostGuard, Trace
from tunesmith.service.jobs import JobRunner
from tunesmith.service.metrics import Metrics
from tunesmith.service.pulse import Pulse
from tunesmith.service.routes import artifacts, best, events, health, jobs, keys, models, records, uploads
from tunesmith.service.schemas import Problem
from tunesmith.service.settings import Settings
from tunesmith.service.sweeper import Sweeper

__all__ = ["create_app"]

_ROUTERS = (
    jobs.router,
    events.router,
    records.router,
    uploads.router,
    artifacts.router,
    best.router,
    models.router,
    keys.router,
    health.router,
)
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Problem, "description": "What is wrong with the request."},
    "5XX": {"model": Problem, "description": "What is wrong with the server."},
}


def create_app(settings: Settings) -> FastAPI:
    """The service over HTTP. Opens the database and starts the worker when it starts, not before.

    Starting raises ``StoreError`` when the database cannot be used.
    """
    app = FastAPI(
        title="Tunesmith",
        summary="Finds the fastest verified kernel for a tensor computation, and remembers it.",
        version=tunesmith.__version__,
        lifespan=_lifespan,
        docs_url=None,  # these pages load scripts from a foreign server
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
        responses=_PROBLEMS,
        dependencies=[Depends(known_parameters)],
    )
    app.state.settings = settings
    app.state.metrics = metrics = Metrics()
    for router in _ROUTERS:
        app.include_router(router)
    errors.install(app)
    app.add_middleware(BodyGuard, limits=settings.limits)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(HostGuard, hosts=settings.hosts, any_address=settings.any_address)
    app.add_middleware(HeadRequests)
    app.add_middleware(Trace, metrics=metrics)
    openapi.install(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    app.openapi()  # which parameters a route knows: not to be found out by the first requests, all at once
    with open_store(settings.url) as store:
        metrics: Metrics = app.state.metrics
        runner = JobRunner(store, settings, metrics.count_trial) if settings.run_jobs else None
        sweeper = Sweeper(store, settings, runner)
        hub = EventHub(store, settings.event_poll_s)
        app.state.context = Context(settings, store, runner, hub, sweeper, Pulse(store), metrics)
        listening = asyncio.create_task(hub.run())
        sweeper.start()
        if runner is not None:
            runner.start()
        try:
            yield
        finally:
            hub.close()
            if runner is not None:
                await asyncio.to_thread(runner.stop)
            await asyncio.to_thread(sweeper.stop)
            await listening


def _operation_id(route: APIRoute) -> str:
    """The function's name: generated clients keep their names when paths change."""
    return route.name
