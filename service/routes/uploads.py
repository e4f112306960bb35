"""Measurements made elsewhere."""

import json
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from tunesmith.db import Store
from tunesmith.ir import TunesmithError
from tunesmith.records import Record, Target
from tunesmith.service import quotas
from tunesmith.service.context import Context, Here, IdempotencyKey, Who
from tunesmith.service.forms import RecordUpload, UploadItem, UploadResult
from tunesmith.service.once import once
from tunesmith.service.programs import check_size
from tunesmith.service.transfer import reasons, submission
from tunesmith.tuning.uploads import Implausible, Programs, accept

__all__ = ["router", "upload_records"]

router = APIRouter(prefix="/v1", tags=["records"])

_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["records"],
                "additionalProperties": False,
                "properties": {
                    "records": {"type": "array", "items": {"$ref": "#/components/schemas/RecordUpload"}}
                },
            }
        },
        "application/x-ndjson": {"schema": {"type": "string", "description": "A record on each line."}},
    },
}


@router.post("/records", openapi_extra={"requestBody": _BODY})
async def upload_records(
    here: Here, who: Who, request: Request, idempotency_key: IdempotencyKey = None
) -> UploadResult:
    """Take over measurements made elsewhere, each for itself: what is illegal or implausible is refused.

    A record is known by its `id`, so that sending it again changes nothing. The schedule must be legal for
    the program, and the times possible on the target. Records become nobody's job's.
    """
    body = await request.body()
    lines = not request.headers.get("content-type", "").startswith("application/json")

    def act() -> UploadResult:
        documents = _documents(body, lines, here.settings.limits.upload_records)
        quotas.spend(who, here.store, here.settings.limits, records=len(documents))
        return _take(here, who.name, documents)

    def work() -> UploadResult:
        quotas.spend(who, here.store, here.settings.limits, size_bytes=len(body))
        return once(here, who, idempotency_key, ("records", body), act, UploadResult)

    return await run_in_threadpool(work)


def _documents(body: bytes, lines: bool, most: int) -> list[Any]:
    documents: Any
    if not body:
        raise _invalid("a body is needed")
    try:
        if lines:
            documents = [json.loads(line) for line in body.splitlines() if line.strip()]
        else:
            given = json.loads(body)
            only = isinstance(given, dict) and set(given) == {"records"}
            documents = given["records"] if only else None
    except (ValueError, RecursionError) as fault:
        raise _invalid(f"no valid JSON: {fault}") from None
    if not isinstance(documents, list):
        raise _invalid('send {"records": […]}')
    if len(documents) > most:
        raise _invalid(f"at most {most} records at a time")
    return documents


def _invalid(reason: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", "records"), "msg": reason, "type": "value_error"}])


def _take(here: Context, who: str, documents: list[Any]) -> UploadResult:
    batch = _Batch(here, who)
    items = [batch.item(index, document) for index, document in enumerate(documents)]
    return batch.store(items)


class _Batch:
    """One upload. Programs and targets that several of its records share are looked at once."""

    def __init__(self, here: Context, who: str) -> None:
        self._here = here
        self._who = who
        self._program = Programs(partial(check_size, limits=here.settings.limits))
        self._targets: dict[str, Target | None] = {}
        self._accepted: dict[int, Record] = {}

    def item(self, index: int, document: Any) -> UploadItem:
        key = document.get("id") if isinstance(document, dict) else None
        key = key if isinstance(key, str) and len(key) <= 64 else None
        try:
            self._accepted[index] = self._record(RecordUpload.model_validate(document))
        except ValidationError as fault:
            return UploadItem(index=index, id=key, status="refused", detail="; ".join(reasons(fault)))
        except (TunesmithError, RecursionError, OverflowError) as fault:
            return UploadItem(index=index, id=key, status="refused", detail=str(fault)[:1000])
        return UploadItem(index=index, id=key, status="new", detail=None)

    def store(self, items: list[UploadItem]) -> UploadResult:
        store = self._here.store
        known = store.known_records({record.id for record in self._accepted.values()})
        fresh: dict[str, Record] = {}
        for index, record in self._accepted.items():
            there = known.get(record.id) or _what(fresh.get(record.id))
            if there is None:
                fresh[record.id] = record
            elif there == _what(record):
                items[index].status = "known"
            else:
                items[index].status = "refused"
                items[index].detail = "the id is that of another record"
        new = store.add_all(fresh.values())
        return UploadResult(
            new=new,
            known=sum(item.status == "known" for item in items) + len(fresh) - new,
            refused=sum(item.status == "refused" for item in items),
            items=items,
        )

    def _record(self, sent: RecordUpload) -> Record:
        if "imported_from" in sent.versions:
            raise Implausible("what another program timed is no upload; `tunesmith db import` takes it")
        made = submission(sent, self._who)
        return accept(made, self._known(self._here.store, made.target), self._program(made.program))

    def _known(self, store: Store, target: Target) -> Target | None:
        fingerprint = target.fingerprint
        if fingerprint not in self._targets:
            self._targets[fingerprint] = store.target(fingerprint)
        return self._targets[fingerprint]


def _what(record: Record | None) -> tuple[str, str] | None:
    return None if record is None else (record.workload.hash, record.schedule_hash)
