"""Requests with an Idempotency-Key: carried out once, answered as often as they are sent."""

import hashlib
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from tunesmith.db.requests import Answered
from tunesmith.service.auth import Principal
from tunesmith.service.context import Context

__all__ = ["once"]

View = TypeVar("View", bound=BaseModel)


def once(
    here: Context,
    who: Principal,
    key: str | None,
    request: tuple[str, bytes],
    act: Callable[[], View],
    view: type[View],
    keep: Callable[[View], View] = lambda made: made,
) -> View:
    """What ``act`` gives, or gave when the same ``request`` (route, body) came first with this key.

    ``keep`` leaves out what must not be kept. Raises ``IdempotencyMismatch`` and ``InFlight``.
    """
    if key is None:
        return act()
    route, body = request
    digest = hashlib.sha256(route.encode() + b"\0" + body).hexdigest()
    answered = here.store.requests.begin(who.owner, key, digest)
    if answered is not None:
        return view.model_validate(answered.body)
    try:
        made = act()
    except BaseException:
        here.store.requests.forget(who.owner, key)
        raise
    here.store.requests.finish(who.owner, key, Answered(200, keep(made).model_dump(mode="json")))
    return made
