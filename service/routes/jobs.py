"""Jobs: submit, list, inspect, pause, resume, stop, cancel."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from tunesmith.db import JobState, Verb
from tunesmith.service import quotas
from tunesmith.service.auth import Principal
from tunesmith.service.context import (
    Context,
    Cursor,
    Here,
    IdempotencyKey,
    IfNoneMatch,
    Limit,
    NextPage,
    Who,
    etag_matches,
    version_of,
)
from tunesmith.service.schemas import JobList, JobRequest, JobView, TaskList, TaskView
from tunesmith.service.submission import job_spec
from tunesmith.service.views import job_summary, job_view

__all__ = [
    "cancel_job",
    "create_job",
    "get_job",
    "list_jobs",
    "list_tasks",
    "pause_job",
    "resume_job",
    "router",
    "stop_job",
]

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_LOCATION = {"Location": {"description": "The job.", "schema": {"type": "string"}}}
_ETAG = {"ETag": {"description": "Changes with the job.", "schema": {"type": "string"}}}


IfMatch = Annotated[
    str | None,
    Header(max_length=1000, description="An `ETag` of the job: only if it has not changed since (else 412)."),
]


@router.post("", status_code=202, responses={202: {"headers": _LOCATION | _ETAG}})
def create_job(
    here: Here, who: Who, request: JobRequest, response: Response, idempotency_key: IdempotencyKey = None
) -> JobView:
    """Queue a tuning job. The text is parsed, never executed; the answer comes before any tuning."""
    spec = job_spec(request, here.settings.tools, here.settings.limits)
    digest = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
    quotas.check_jobs(who, here.store, here.settings.limits, spec.trials)
    job, _ = here.store.jobs.create(
        spec, owner=who.owner, idempotency_key=idempotency_key, request_sha256=digest
    )
    if here.runner is not None:
        here.runner.wake()
    response.headers.update({"Location": f"/v1/jobs/{job.id}", "ETag": f'"v{job.version}"'})
    return job_view(job, here.store)


@router.get("")
def list_jobs(
    here: Here,
    who: Who,
    next_page: NextPage,
    state: Annotated[JobState | None, Query()] = None,
    priority: Annotated[int | None, Query(ge=-1000, le=1000)] = None,
    workload: Annotated[
        str | None, Query(max_length=64, description="Hash of a workload that is one of its tasks.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JobList:
    """Jobs, newest first, without their source and result."""
    page = here.store.jobs.list(
        owner=who.sees, state=state, priority=priority, workload=workload, limit=limit, cursor=cursor
    )
    return JobList(items=[job_summary(job) for job in page.items], next_cursor=next_page(page.next_cursor))


@router.get(
    "/{job_id}",
    response_model=JobView,
    responses={200: {"headers": _ETAG}, 304: {"description": "The job is as the client knows it."}},
)
def get_job(
    here: Here,
    who: Who,
    job_id: str,
    response: Response,
    if_none_match: IfNoneMatch = None,
) -> JobView | Response:
    """A job with its progress; with its result or error when it has ended."""
    job = here.store.jobs.get(job_id, owner=who.sees)
    headers = {"ETag": f'"v{job.version}"', "Cache-Control": "no-cache"}
    if etag_matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return job_view(job, here.store)


@router.get("/{job_id}/tasks")
def list_tasks(here: Here, who: Who, job_id: str) -> TaskList:
    """The computations of a job, in the order of the request; identical ones are one."""
    tasks = here.store.jobs.tasks(job_id, owner=who.sees)
    return TaskList(items=[TaskView.model_validate(task) for task in tasks])


@router.post("/{job_id}:pause", responses={200: {"headers": _ETAG}})
def pause_job(
    here: Here, who: Who, job_id: str, response: Response, if_match: IfMatch = None
) -> JobView:
    """Measure nothing new until the job is resumed. What is being measured is finished. May be repeated.

    A running job becomes paused when its worker has seen it; until then `requested` says so. 409 for a job
    that has ended, or is asked to.
    """
    return _ask(here, who, job_id, Verb.PAUSE, response, if_match)


@router.post("/{job_id}:resume", responses={200: {"headers": _ETAG}})
def resume_job(
    here: Here, who: Who, job_id: str, response: Response, if_match: IfMatch = None
) -> JobView:
    """Let a paused job go on, or withdraw the request to pause it. May be repeated.

    409 for a job that has ended, or is asked to.
    """
    return _ask(here, who, job_id, Verb.RESUME, response, if_match)


@router.post("/{job_id}:stop", responses={200: {"headers": _ETAG}})
def stop_job(
    here: Here, who: Who, job_id: str, response: Response, if_match: IfMatch = None
) -> JobView:
    """End a job with what it has: what is being measured is finished, and the winner chosen. May be repeated.

    409 for a job that has ended otherwise.
    """
    return _ask(here, who, job_id, Verb.STOP, response, if_match)


@router.post("/{job_id}:cancel", responses={200: {"headers": _ETAG}})
def cancel_job(
    here: Here, who: Who, job_id: str, response: Response, if_match: IfMatch = None
) -> JobView:
    """End a job at once; what is being measured is killed. Finished trials stay on record. May be repeated.

    409 for a job that has ended otherwise.
    """
    return _ask(here, who, job_id, Verb.CANCEL, response, if_match)


def _ask(
    here: Context, who: Principal, job_id: str, verb: Verb, response: Response, if_match: str | None
) -> JobView:
    version = None
    if if_match is not None:
        version = version_of(if_match, here.store.jobs.get(job_id, owner=who.sees).version)
    job = here.store.jobs.ask(job_id, verb, owner=who.sees, version=version)
    if here.runner is not None:
        here.runner.notice(job.id)
    response.headers["ETag"] = f'"v{job.version}"'
    return job_view(job, here.store)
