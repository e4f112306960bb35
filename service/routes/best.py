"""The best schedule of a workload."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.exceptions import RequestValidationError

from tunesmith.db import NotFound
from tunesmith.service.context import Context, Here
from tunesmith.service.programs import read_workload
from tunesmith.service.schemas import BestQuery, BestView
from tunesmith.service.views import best_view

__all__ = ["find_best", "get_best", "router"]

router = APIRouter(prefix="/v1/best", tags=["best"])

Target = Annotated[
    str | None, Query(max_length=64, description="Fingerprint of a target; without it, any target.")
]


@router.get("")
def get_best(
    here: Here,
    workload: Annotated[str | None, Query(max_length=64, description="Hash of a workload.")] = None,
    operator: Annotated[str | None, Query(max_length=4096, examples=["matmul(512,512,512)"])] = None,
    target: Target = None,
) -> BestView:
    """What to run for a workload hash or a named operator (exactly one of them), from the closest target."""
    if (workload is None) == (operator is None):
        reason = "give exactly one of workload and operator"
        raise RequestValidationError([{"loc": ("query", "workload"), "msg": reason, "type": "one_of"}])
    return _best(here, workload or _hash(here, {"operator": operator}), target)


@router.post("")
def find_best(here: Here, query: BestQuery) -> BestView:
    """As `GET`, for the text of a program."""
    return _best(here, _hash(here, {"program": query.program}), query.target)


def _hash(here: Context, source: dict[str, Any]) -> str:
    return read_workload(here.settings.tools, here.settings.limits, source).hash


def _best(here: Context, workload_hash: str, target: str | None) -> BestView:
    best = here.store.best(workload_hash, target)
    if best is None:
        raise NotFound("working record of workload", workload_hash, "submit a job to find one")
    return best_view(best)
