"""Trained cost models: uploaded, listed, downloaded."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tunesmith.service import quotas
from tunesmith.service.context import (
    Context,
    Cursor,
    Here,
    IdempotencyKey,
    IfNoneMatch,
    Limit,
    NextPage,
    Who,
    answer,
    etag_matches,
)
from tunesmith.service.forms import ModelList, ModelView
from tunesmith.service.lines import Line
from tunesmith.service.once import once

__all__ = ["get_model", "get_model_data", "list_models", "router", "upload_model"]

router = APIRouter(prefix="/v1/models", tags=["models"])

_FILE = {"schema": {"type": "string", "format": "binary"}}
_BODY = {"required": True, "content": {"application/octet-stream": _FILE, "application/zip": _FILE}}
_TAGGED = {"ETag": {"description": "SHA-256 of the bytes.", "schema": {"type": "string"}}}
_CURRENT = {"description": "The client's copy is current."}


@router.post("", status_code=201, openapi_extra={"requestBody": _BODY})
async def upload_model(
    here: Here,
    who: Who,
    request: Request,
    name: Annotated[Line, Query(min_length=1, max_length=100)],
    idempotency_key: IdempotencyKey = None,
) -> ModelView:
    """Keep a model as `tunesmith train --out` writes it. The bytes are parsed in a process of their own.

    The same bytes are the same model, however often they are sent. 422 for bytes that are no model of this
    version's features.
    """
    data = await request.body()

    def work() -> ModelView:
        quotas.spend(who, here.store, here.settings.limits, size_bytes=len(data))
        content = (f"models?name={name}", data)
        return once(here, who, idempotency_key, content, lambda: _keep(here, name, data), ModelView)

    return await run_in_threadpool(work)


def _keep(here: Context, name: str, data: bytes) -> ModelView:
    facts = here.settings.tools.check_model(data)
    model, _ = here.store.models.put(
        name, data, feature_schema=facts.feature_schema, n_records=facts.n_records, about=facts.about
    )
    return ModelView.model_validate(model)


@router.get("")
def list_models(
    here: Here,
    next_page: NextPage,
    name: Annotated[str | None, Query(max_length=100)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> ModelList:
    """Models, newest first."""
    page = here.store.models.list(name=name, limit=limit, cursor=cursor)
    items = [ModelView.model_validate(model) for model in page.items]
    return ModelList(items=items, next_cursor=next_page(page.next_cursor))


@router.get("/{model_id}", response_model=ModelView, responses={304: _CURRENT})
def get_model(here: Here, model_id: str, if_none_match: IfNoneMatch = None) -> Response:
    """What is known of a model."""
    return answer(ModelView.model_validate(here.store.models.get(model_id)), if_none_match)


@router.get(
    "/{model_id}/data",
    response_class=Response,
    responses={
        200: {"content": {"application/zip": _FILE}, "headers": _TAGGED, "description": "The file."},
        304: _CURRENT,
    },
)
def get_model_data(here: Here, model_id: str, if_none_match: IfNoneMatch = None) -> Response:
    """The file of a model."""
    model = here.store.models.get(model_id)
    headers = {"ETag": f'"{model.sha256}"', "Cache-Control": "private, max-age=31536000, immutable"}
    if etag_matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    headers["Content-Disposition"] = f'attachment; filename="{model.sha256[:16]}.zip"'
    return Response(here.store.models.data(model_id), media_type="application/zip", headers=headers)
