"""API keys, for those who may hand them out."""

import datetime as dt

from fastapi import APIRouter, Response

from tunesmith.db import ApiKey
from tunesmith.records import utc_now
from tunesmith.service.context import Context, Cursor, Here, IdempotencyKey, Limit, NextPage, Who
from tunesmith.service.forms import KeyList, KeyRequest, KeyView, NewKeyView
from tunesmith.service.once import once

__all__ = ["create_key", "get_key", "list_keys", "revoke_key", "router"]

router = APIRouter(prefix="/v1/keys", tags=["keys"])


_LOCATION = {"Location": {"description": "The key.", "schema": {"type": "string"}}}


@router.post("", status_code=201, responses={201: {"headers": _LOCATION}})
def create_key(
    here: Here, who: Who, request: KeyRequest, response: Response, idempotency_key: IdempotencyKey = None
) -> NewKeyView:
    """Make a key. Its secret is in this answer only: nobody can show it again."""
    body = request.model_dump_json().encode()
    sent = ("keys", body)
    made = once(here, who, idempotency_key, sent, lambda: _create(here, request), NewKeyView, _without_secret)
    response.headers["Location"] = f"/v1/keys/{made.key.id}"
    return made


def _create(here: Context, request: KeyRequest) -> NewKeyView:
    life = request.expires_in_s
    expires_at = None if life is None else utc_now() + dt.timedelta(seconds=life)
    key, secret = here.store.keys.create(request.name, request.scopes, expires_at=expires_at)
    return NewKeyView(key=_view(key), secret=secret)


def _without_secret(made: NewKeyView) -> NewKeyView:
    return made.model_copy(update={"secret": None})


@router.get("")
def list_keys(here: Here, next_page: NextPage, limit: Limit = 100, cursor: Cursor = None) -> KeyList:
    """Keys, newest first, those that are expired or revoked too."""
    page = here.store.keys.list(limit=limit, cursor=cursor)
    return KeyList(items=[_view(key) for key in page.items], next_cursor=next_page(page.next_cursor))


@router.get("/{key_id}")
def get_key(here: Here, key_id: str) -> KeyView:
    """A key, by its id or prefix."""
    return _view(here.store.keys.get(key_id))


@router.delete("/{key_id}")
def revoke_key(here: Here, key_id: str) -> KeyView:
    """Make a key unusable for good, within five seconds. May be repeated."""
    return _view(here.store.keys.revoke(key_id))


def _view(key: ApiKey) -> KeyView:
    values = {name: getattr(key, name) for name in KeyView.model_fields}
    return KeyView(**{**values, "scopes": sorted(key.scopes)})
