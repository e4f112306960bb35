"""What every request passes before it is looked at: ASGI middleware without knowledge of routes."""

import ipaddress
import logging
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunesmith.records import new_id
from tunesmith.service import logs
from tunesmith.service.errors import ProblemType, problem
from tunesmith.service.metrics import Metrics

__all__ = ["HostGuard", "Trace"]

log = logging.getLogger("tunesmith.access")

_LEFT, _MISTAKE = 499, 500
_ASKED_ALL_DAY = {"/livez", "/readyz", "/metrics"}
_SAFE = {"GET", "HEAD", "OPTIONS"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


class Trace:
    """Gives every request an id, by which an answer is found in the log, and the common headers; counts it,
    and writes its line of the log."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["trace_id"] = trace_id = new_id()
        began, status = time.perf_counter(), _LEFT

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._metrics.count_latency(_route(scope), scope["method"], time.perf_counter() - began)
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = trace_id
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        # Not undone: what is outside, and answers to mistakes, is of this request's task too.
        logs.begin(request_id=trace_id)
        try:
            await self._app(scope, receive, with_headers)
        except Exception:
            status = _MISTAKE
            raise
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method, path, route = scope["method"], scope["path"], _route(scope)
        self._metrics.count_request(route, method, status)
        level = logging.DEBUG if route in _ASKED_ALL_DAY and status < _MISTAKE else logging.INFO
        if log.isEnabledFor(level):
            fields = {"method": method, "path": path, "route": route, "status": status}
            fields |= {"client": (scope.get("client") or ("?",))[0], "seconds": round(seconds, 6)}
            line = "%s %s %d in %.1f ms"
            log.log(level, line, method, path, status, 1e3 * seconds, extra=logs.with_fields(**fields))


def _route(scope: Scope) -> str:
    """As it is written in the OpenAPI document: of these there are few."""
    return getattr(scope.get("route"), "path", "none")


class HostGuard:
    """Refuses foreign names, changes asked for by foreign web pages, and paths that nothing has.

    A page of another site can make a browser send requests here, and by DNS rebinding even read the
    answers; but it cannot make the browser name a host or an origin other than its own.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], any_address: bool) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        await problem(*refusal, trace_id=scope["trace_id"])(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[ProblemType, str] | None:
        if not scope["path"].isprintable():  # routes and permissions could disagree on what it names
            kind = ProblemType("bad-path", 400, "The path cannot be that of anything")
            return kind, "The path holds control characters."
        headers = Headers(scope=scope)
        named = headers.getlist("host")
        if len(named) != 1 or not self._allowed(f"//{named[0]}"):
            kind = ProblemType("unknown-host", 400, "The service is not known by this name")
            return kind, f"The Host header must be one of {', '.join(sorted(self._hosts))}."
        origin = headers.get("origin")
        if scope["method"] not in _SAFE and origin is not None and not self._allowed(origin):
            kind = ProblemType("foreign-origin", 403, "The request comes from a foreign web page")
            return kind, "Pages of other sites may not change anything here."
        return None

    def _allowed(self, url: str) -> bool:
        try:
            name = urlsplit(url).hostname or ""
        except ValueError:
            return False
        return name in self._hosts or (self._any_address and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
