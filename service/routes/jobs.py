"""Jobs: submit, list, inspect, cancel."""

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.exceptions import RequestValidationError

from tunesmith.db import JobSpec, JobState
from tunesmith.service.context import Cursor, Here, Limit, etag_matches
from tunesmith.service.programs import read_workload
from tunesmith.service.schemas import JobList, JobRequest, JobView
from tunesmith.service.views import job_summary, job_view

__all__ = ["cancel_job", "create_job", "get_job", "list_jobs", "router"]

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

DEFAULT_TRIALS = 64

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Repeating a request with the same key within 24 hours gives the job of the first.",
    ),
]
_LOCATION = {"Location": {"description": "The job.", "schema": {"type": "string"}}}
_ETAG = {"ETag": {"description": "Changes with the job.", "schema": {"type": "string"}}}


@router.post("", status_code=202, responses={202: {"headers": _LOCATION}})
def create_job(
    here: Here, request: JobRequest, response: Response, idempotency_key: IdempotencyKey = None
) -> JobView:
    """Queue a tuning job. The text is parsed, never executed; the answer comes before any tuning."""
    _check_threads(request, here.settings.limits.threads)
    source = request.model_dump(include={"program", "operator"}, exclude_none=True)
    options = _options(request)
    spec = JobSpec(
        workload=read_workload(here.settings.tools, here.settings.limits, source),
        source=source,
        options=options,
        trials=options["trials"],
        seed=request.seed,
    )
    digest = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
    job, _ = here.store.jobs.create(spec, idempotency_key=idempotency_key, request_sha256=digest)
    if here.runner is not None:
        here.runner.wake()
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job_view(job, here.store)


def _check_threads(request: JobRequest, most: int) -> None:
    if request.threads > most:
        reason = f"this machine has {most} cores for it"
        raise RequestValidationError([{"loc": ("body", "threads"), "msg": reason, "type": "less_than_equal"}])


def _options(request: JobRequest) -> dict[str, Any]:
    unlimited = request.trials is None and request.seconds is not None
    return {
        "trials": None if unlimited else request.trials or DEFAULT_TRIALS,
        "seconds": request.seconds,
        "threads": request.threads,
        "seed": request.seed,
        "fresh": request.fresh,
        "cache": request.cache,
    }


@router.get("")
def list_jobs(
    here: Here,
    state: Annotated[JobState | None, Query()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JobList:
    """Jobs, newest first, without their source and result."""
    page = here.store.jobs.list(state=state, limit=limit, cursor=cursor)
    return JobList(items=[job_summary(job) for job in page.items], next_cursor=page.next_cursor)


@router.get(
    "/{job_id}",
    response_model=JobView,
    responses={200: {"headers": _ETAG}, 304: {"description": "The job is as the client knows it."}},
)
def get_job(
    here: Here,
    job_id: str,
    response: Response,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> JobView | Response:
    """A job with its progress; with its result or error when it has ended."""
    job = here.store.jobs.get(job_id)
    headers = {"ETag": f'"v{job.version}"', "Cache-Control": "no-cache"}
    if etag_matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return job_view(job, here.store)


@router.post("/{job_id}:cancel")
def cancel_job(here: Here, job_id: str) -> JobView:
    """Cancel a queued job at once; a running one after its trials in flight. May be repeated.

    A job that succeeded or failed cannot be cancelled (409).
    """
    return job_view(here.store.jobs.cancel(job_id), here.store)
