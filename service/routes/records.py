"""Records, workloads and targets: what has been measured."""

from typing import Annotated

from fastapi import APIRouter, Query

from tunesmith.db import Order
from tunesmith.records import Status
from tunesmith.service.context import Cursor, Here, Limit
from tunesmith.service.schemas import (
    ExplanationView,
    RecordList,
    RecordSummaryView,
    RecordView,
    TargetList,
    WorkloadList,
    WorkloadSummaryView,
)
from tunesmith.service.views import record_view, target_view

__all__ = ["explain_record", "get_record", "list_records", "list_targets", "list_workloads", "router"]

router = APIRouter(prefix="/v1", tags=["records"])

Key = Annotated[str | None, Query(max_length=64)]


@router.get("/records")
def list_records(
    here: Here,
    workload: Key = None,
    target: Key = None,
    status: Annotated[Status | None, Query()] = None,
    job: Key = None,
    order: Annotated[Order, Query()] = Order.CREATED,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> RecordList:
    """Summaries of records, newest first; with `order=time` as served, fastest first.

    `order=time` leaves out failed trials and needs a workload or a job.
    """
    page = here.store.summaries(
        workload=workload, target=target, status=status, job=job, order=order, limit=limit, cursor=cursor
    )
    items = [RecordSummaryView.model_validate(item) for item in page.items]
    return RecordList(items=items, next_cursor=page.next_cursor)


@router.get("/records/{record_id}")
def get_record(here: Here, record_id: str) -> RecordView:
    """A whole record: program, target, schedule, all samples. The id may be abbreviated."""
    return record_view(here.store.get(record_id))


@router.get("/records/{record_id}/explanation")
def explain_record(here: Here, record_id: str) -> ExplanationView:
    """Where the time of a record goes, what binds it, and what the cost model makes of it.

    422 for a record whose schedule this version cannot read.
    """
    return ExplanationView.model_validate(here.settings.tools.explain(here.store.get(record_id), here.store))


@router.get("/workloads")
def list_workloads(
    here: Here,
    structure: Annotated[
        str | None, Query(max_length=64, description="Only this computation, whatever its shapes.")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> WorkloadList:
    """Workloads with their counts and best times, newest first."""
    page = here.store.workloads(structure=structure, limit=limit, cursor=cursor)
    items = [WorkloadSummaryView.model_validate(item) for item in page.items]
    return WorkloadList(items=items, next_cursor=page.next_cursor)


@router.get("/targets")
def list_targets(here: Here) -> TargetList:
    """Every target that was ever measured on."""
    return TargetList(items=[target_view(target) for target in here.store.targets()])
