"""The gate: every request is somebody's, has permission, and is not one too many. Before any body is read."""

import logging
import math
import re
import time
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tunesmith.db import ApiKey, Store, StoreError
from tunesmith.db.access import secret_digest
from tunesmith.records import utc_now
from tunesmith.service.auth.principal import ANYBODY, LOCAL, Principal
from tunesmith.service.auth.rates import Buckets
from tunesmith.service.auth.scopes import needed_scope
from tunesmith.service.errors import ProblemType, domain_problem, problem
from tunesmith.service.settings import Settings

__all__ = ["KEY_LIFE_S", "Gate"]

log = logging.getLogger(__name__)

KEY_LIFE_S = 5.0
"""How long a key that was looked up is trusted; so long a revoked one may live."""

_CACHED = 1000
_SECRET = re.compile(r"tsk_[A-Za-z0-9_-]{40,80}")
_UNKNOWN = ProblemType("unauthorized", 401, "A valid key is needed")
_FORBIDDEN = ProblemType("forbidden", 403, "The key is not for this")
_TOO_MANY = ProblemType("too-many-requests", 429, "Too many requests")


@dataclass
class _Refusal(Exception):
    kind: ProblemType
    detail: str
    headers: dict[str, str]


def _no_key(detail: str, error: str = "") -> _Refusal:
    challenge = 'Bearer realm="tunesmith"' + (f', error="{error}"' if error else "")
    return _Refusal(_UNKNOWN, detail, {"WWW-Authenticate": challenge})


class Gate:
    """Puts the ``principal`` into the scope of the request, or answers 401, 403, 429 or 503."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        limits = settings.limits
        self._app = app
        self._require_key = settings.require_key
        self._asked = Buckets(limits.requests_per_s, limits.requests_burst)
        self._failed = Buckets(limits.failures_per_s, limits.failures_burst)
        self._known: dict[str, tuple[ApiKey, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace_id = scope["trace_id"]
        try:
            scope["principal"] = await self._admit(scope)
        except _Refusal as refusal:
            answer = problem(refusal.kind, refusal.detail, trace_id, refusal.headers)
            await answer(scope, receive, send)
        except StoreError as fault:
            await domain_problem(fault, trace_id)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Principal:
        needed = needed_scope(scope["method"], scope["path"])
        address = scope["client"][0] if scope.get("client") else "?"
        secret = _bearer(Headers(scope=scope))
        if secret is not None:
            principal = await self._holder(scope["app"].state.context.store, secret, address)
        elif needed is None:
            principal = ANYBODY
        elif self._require_key:
            self._failure(address)
            raise _no_key("Send a key: Authorization: Bearer tsk_…; `tunesmith keys create` makes one.")
        else:
            principal = LOCAL
        _hold(self._asked.take(principal.owner or address))
        if not principal.may(needed):
            assert needed is not None
            challenge = f'Bearer realm="tunesmith", error="insufficient_scope", scope="{needed}"'
            detail = f"This needs a key with the scope {needed}."
            raise _Refusal(_FORBIDDEN, detail, {"WWW-Authenticate": challenge})
        return principal

    async def _holder(self, store: Store, secret: str, address: str) -> Principal:
        """Whose secret it is; one that is none does not reach the database."""
        key = await self._key(store, secret) if _SECRET.fullmatch(secret) else None
        if key is None or not key.usable(utc_now()):
            self._failure(address)
            gone = "has expired or was revoked" if key else "is not known"
            raise _no_key(f"The key {gone}.", "invalid_token")
        return Principal(key.id, key.name, key.scopes)

    async def _key(self, store: Store, secret: str) -> ApiKey | None:
        digest, now = secret_digest(secret), time.monotonic()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        key = await run_in_threadpool(_look_up, store, secret)
        if key is not None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[digest] = key, now + KEY_LIFE_S
        return key

    def _failure(self, address: str) -> None:
        _hold(self._failed.take(address))


def _look_up(store: Store, secret: str) -> ApiKey | None:
    key = store.keys.find(secret)
    if key is not None:
        try:
            store.keys.touch(key)
        except StoreError as fault:  # whoever may read can still read from a database that is full
            log.warning("the use of key %s is not noted: %s", key.prefix, fault)
    return key


def _bearer(headers: Headers) -> str | None:
    given = headers.getlist("authorization")
    if not given:
        return None
    scheme, _, secret = given[0].partition(" ")
    return secret.strip() if len(given) == 1 and scheme.lower() == "bearer" else ""


def _hold(wait_s: float) -> None:
    if wait_s > 0:
        seconds = max(1, math.ceil(wait_s))
        raise _Refusal(_TOO_MANY, f"Ask again in {seconds} s.", {"Retry-After": str(seconds)})
