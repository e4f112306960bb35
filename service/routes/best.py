"""The best schedule of a workload."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Query, Response
from fastapi.exceptions import RequestValidationError

from tunesmith.db import NotFound, Store
from tunesmith.ir import Program, program_from_json, workload_hash
from tunesmith.records import Target
from tunesmith.service.context import Context, Here, IfNoneMatch, answer
from tunesmith.service.forms import TargetDocument
from tunesmith.service.programs import read_program
from tunesmith.service.schemas import BestQuery, BestView
from tunesmith.service.views import best_view, near_view
from tunesmith.tuning.uploads import check_peaks

__all__ = ["find_best", "get_best", "router"]

router = APIRouter(prefix="/v1/best", tags=["best"])

Wanted: TypeAlias = Target | str | None
Fingerprint = Annotated[
    str | None, Query(max_length=64, description="Fingerprint of a target; without it, any target.")
]
_TAGGED = {"ETag": {"description": "Changes with the answer.", "schema": {"type": "string"}}}


@router.get(
    "",
    response_model=BestView,
    responses={200: {"headers": _TAGGED}, 304: {"description": "The client's copy is current."}},
)
def get_best(
    here: Here,
    workload: Annotated[str | None, Query(max_length=64, description="Hash of a workload.")] = None,
    operator: Annotated[str | None, Query(max_length=4096, examples=["matmul(512,512,512)"])] = None,
    target: Fingerprint = None,
    near: Annotated[bool, Query(description="If it was never tuned, answer from other shapes.")] = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """What to run for a workload hash or a named operator (exactly one of them), from the closest target.

    First that very target, then the same CPU, features and threads, then the same architecture; `match` says
    which it was. With `near=true` a shape that was never tuned is answered from the nearest ones that were,
    for a known target: an estimate, with what it is expected to lose against tuning.
    """
    if (workload is None) == (operator is None):
        reason = "give exactly one of workload and operator"
        raise RequestValidationError([{"loc": ("query", "workload"), "msg": reason, "type": "one_of"}])
    if operator is not None:
        program = read_program(here.settings.tools, here.settings.limits, {"operator": operator})
        return answer(_best_of(here, program, target, near, "query"), if_none_match)
    assert workload is not None
    return answer(_best(here, workload, None, target, near, "query"), if_none_match)


@router.post("")
def find_best(here: Here, query: BestQuery) -> BestView:
    """As `GET`, and for the text of a program too, or for a target that was never measured on.

    Such a target is sent whole, as `GET /v1/targets/{fingerprint}` would give it; records of the same CPU,
    then of the same architecture answer for it.
    """
    given = query.target
    target = given.value() if isinstance(given, TargetDocument) else given
    if query.workload is not None:
        return _best(here, query.workload, None, target, query.near, "body")
    source = {"program": query.program} if query.program is not None else {"operator": query.operator}
    program = read_program(here.settings.tools, here.settings.limits, source)
    return _best_of(here, program, target, query.near, "body")


def _best_of(here: Context, program: Program, target: Wanted, near: bool, place: str) -> BestView:
    return _best(here, workload_hash(program), program, target, near, place)


def _best(
    here: Context, key: str, program: Program | None, target: Wanted, near: bool, place: str
) -> BestView:
    """``key`` is the hash of the workload; without its ``program`` a stored one is looked for when needed.
    ``place`` of the request is where the target stands."""
    best = here.store.best(key, target)
    if best is not None:
        return best_view(best)
    there = _target(here.store, target)
    missing = NotFound("working record of workload", key, "submit a job to find one")
    if not near:
        raise missing
    if program is None:
        stored = here.store.workload(key)
        if stored is None:
            raise missing
        program = program_from_json(stored.program)
    if there is None:
        reason = "an estimate is for a target; give the fingerprint of a known one, or POST a whole one"
        raise RequestValidationError([{"loc": (place, "target"), "msg": reason, "type": "missing"}])
    return near_view(here.settings.tools.near(program, there, here.store))


def _target(store: Store, wanted: Wanted) -> Target | None:
    """With the peaks that are known of it, if any are. Raises ``NotFound``, ``Implausible``."""
    if wanted is None:
        return None
    known = store.target(wanted if isinstance(wanted, str) else wanted.fingerprint)
    if known is not None:
        return known
    if isinstance(wanted, str):
        raise NotFound("target", wanted, "POST /v1/best takes a whole target, which need not be known")
    check_peaks(wanted)
    return wanted
