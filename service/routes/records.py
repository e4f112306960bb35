"""Records, workloads and targets: what has been measured."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from tunesmith.db import NotFound, Order
from tunesmith.records import Status
from tunesmith.service.context import Cursor, Here, IfNoneMatch, Limit, NextPage, answer
from tunesmith.service.schemas import (
    ExplanationView,
    RecordList,
    RecordSummaryView,
    RecordView,
    TargetList,
    TargetView,
    WorkloadList,
    WorkloadSummaryView,
)
from tunesmith.service.views import record_view, target_view

__all__ = [
    "explain_record",
    "get_record",
    "get_target",
    "get_workload",
    "list_records",
    "list_targets",
    "list_workloads",
    "router",
]

router = APIRouter(prefix="/v1", tags=["records"])

_ETAG = {"description": "Changes with the answer.", "schema": {"type": "string"}}
_TAGGED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": _ETAG}},
    304: {"description": "The client's copy is current."},
}
Key = Annotated[str | None, Query(max_length=64)]


@router.get("/records")
def list_records(
    here: Here,
    next_page: NextPage,
    workload: Key = None,
    target: Key = None,
    status: Annotated[Status | None, Query()] = None,
    job: Key = None,
    order: Annotated[Order, Query()] = Order.CREATED,
    cache: Annotated[Literal["warm", "cold"], Query()] = "warm",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> RecordList:
    """Summaries of records, newest first; with `order=time` as served, fastest first.

    `order=time` needs a workload or a job, and leaves out failed trials and those measured with caches in
    another state than `cache`.
    """
    page = here.store.summaries(
        workload=workload,
        target=target,
        status=status,
        job=job,
        order=order,
        cache=cache,
        limit=limit,
        cursor=cursor,
    )
    items = [RecordSummaryView.model_validate(item) for item in page.items]
    return RecordList(items=items, next_cursor=next_page(page.next_cursor))


@router.get("/records/{record_id}", response_model=RecordView, responses=_TAGGED)
def get_record(here: Here, record_id: str, if_none_match: IfNoneMatch = None) -> Response:
    """A whole record: program, target, schedule, all samples. The id may be abbreviated."""
    return answer(record_view(here.store.get(record_id)), if_none_match)


@router.get("/records/{record_id}/explanation")
def explain_record(here: Here, record_id: str) -> ExplanationView:
    """Where the time of a record goes, what binds it, and what the cost model makes of it.

    422 for a record whose schedule this version cannot read.
    """
    return ExplanationView.model_validate(here.settings.tools.explain(here.store.get(record_id), here.store))


@router.get("/workloads")
def list_workloads(
    here: Here,
    next_page: NextPage,
    structure: Annotated[
        str | None, Query(max_length=64, description="Only this computation, whatever its shapes.")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> WorkloadList:
    """Workloads with their counts and best times, newest first."""
    page = here.store.workloads(structure=structure, limit=limit, cursor=cursor)
    items = [WorkloadSummaryView.model_validate(item) for item in page.items]
    return WorkloadList(items=items, next_cursor=next_page(page.next_cursor))


@router.get("/workloads/{workload_hash}", response_model=WorkloadSummaryView, responses=_TAGGED)
def get_workload(here: Here, workload_hash: str, if_none_match: IfNoneMatch = None) -> Response:
    """A workload with its counts and best time."""
    found = here.store.workload_summary(workload_hash)
    return answer(WorkloadSummaryView.model_validate(found), if_none_match)


@router.get("/targets")
def list_targets(here: Here, next_page: NextPage, limit: Limit = 100, cursor: Cursor = None) -> TargetList:
    """Targets that were ever measured on, newest first."""
    page = here.store.target_page(limit=limit, cursor=cursor)
    items = [target_view(target) for target in page.items]
    return TargetList(items=items, next_cursor=next_page(page.next_cursor))


@router.get("/targets/{fingerprint}", response_model=TargetView, responses=_TAGGED)
def get_target(here: Here, fingerprint: str, if_none_match: IfNoneMatch = None) -> Response:
    """A target, with the peaks that were measured first."""
    target = here.store.target(fingerprint)
    if target is None:
        raise NotFound("target", fingerprint)
    return answer(target_view(target), if_none_match)
