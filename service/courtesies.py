"""What clients may expect of any HTTP service: HEAD, and that no parameter is ignored in silence."""

import difflib

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HeadRequests", "known_parameters", "streams"]


def streams(path: str) -> bool:
    """Whether GET of the path gives a stream, which has no end to tell the size of."""
    return path.endswith("/events")


class HeadRequests:
    """Answers HEAD as GET, without the body (RFC 9110 §9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or streams(scope["path"]):
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            await send({**message, "body": b""} if is_body else message)

        await self._app({**scope, "method": "GET"}, receive, without_body)


def known_parameters(request: Request) -> None:
    """A dependency of all routes: a misspelt filter is refused, as a misspelt member of a body is."""
    given = request.query_params
    if not given:
        return
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    known = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise RequestValidationError([_unknown(name, known) for name in dict.fromkeys(unknown)])


def _unknown(name: str, known: list[str]) -> dict[str, object]:
    near = difflib.get_close_matches(name[:64], known, n=1)
    there_are = f"; there are {', '.join(known)}" if known else ""
    hint = f"; did you mean {near[0]}?" if near else there_are
    return {"loc": ("query", name[:64]), "msg": f"no such parameter{hint}", "type": "extra_forbidden"}
