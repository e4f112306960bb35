"""Errors as problem details (RFC 9457): one table from the domain's exceptions to HTTP."""

import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tunesmith.db import (
    Ambiguous,
    BadCursor,
    BadQuery,
    Conflict,
    DatabaseLocked,
    IdempotencyMismatch,
    NotFound,
    StoreError,
    VersionMismatch,
)
from tunesmith.ir import LimitError, ProgramError, TunesmithError
from tunesmith.service.methods import allowed_methods

__all__ = [
    "PROBLEMS",
    "ProblemType",
    "QuotaExceeded",
    "TrialFailed",
    "domain_problem",
    "install",
    "problem",
    "problem_type",
]

log = logging.getLogger(__name__)


class TrialFailed(Conflict):
    """An artifact was asked for of a record whose candidate did not work."""


class QuotaExceeded(TunesmithError):
    """A key has more than it may; ``retry_s``: when it is worth to ask again."""

    def __init__(self, what: str, retry_s: int) -> None:
        super().__init__(what)
        self.retry_s = retry_s


@dataclass(frozen=True, slots=True)
class ProblemType:
    slug: str
    status: int
    title: str


PROBLEMS: tuple[tuple[type[Exception], ProblemType], ...] = (
    (LimitError, ProblemType("program-too-large", 422, "The program is larger than the limits allow")),
    (ProgramError, ProblemType("invalid-program", 422, "The text is not a valid program")),
    (Ambiguous, ProblemType("ambiguous-id", 404, "Several ids begin like this")),
    (NotFound, ProblemType("not-found", 404, "There is no such thing")),
    (BadCursor, ProblemType("bad-cursor", 400, "The cursor does not belong to this query")),
    (BadQuery, ProblemType("bad-query", 400, "The query cannot be answered")),
    (IdempotencyMismatch, ProblemType("idempotency-mismatch", 422, "The key was used with another request")),
    (QuotaExceeded, ProblemType("quota-exceeded", 429, "The key has more than it may")),
    (TrialFailed, ProblemType("trial-failed", 409, "The record is of a failed trial")),
    (VersionMismatch, ProblemType("version-mismatch", 412, "The thing has changed since it was looked at")),
    (Conflict, ProblemType("conflict", 409, "The state forbids it")),
    (DatabaseLocked, ProblemType("database-busy", 503, "The database is busy")),
    (StoreError, ProblemType("database-unavailable", 503, "The database cannot be used")),
    (TunesmithError, ProblemType("unprocessable", 422, "The request cannot be carried out")),
)
"""The first class that an exception is an instance of counts."""

_BUSY_S, _UNAVAILABLE_S = 2, 10
_SEE_LOG = "The server's log says more under this trace id."


def problem_type(error: Exception) -> ProblemType | None:
    return next((kind for cls, kind in PROBLEMS if isinstance(error, cls)), None)


def problem(
    kind: ProblemType, detail: str, trace_id: str = "", headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    """An ``application/problem+json`` response; ``more`` are members beyond those of the standard."""
    body = {
        "type": f"urn:tunesmith:problem:{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        **more,
        **({"trace_id": trace_id} if trace_id else {}),
    }
    return JSONResponse(body, kind.status, headers, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Makes every error of the application a problem document."""
    app.add_exception_handler(TunesmithError, _domain)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def _trace_id(request: Request) -> str:
    return str(request.scope.get("trace_id", ""))


def _domain(request: Request, error: Exception) -> JSONResponse:
    return domain_problem(error, _trace_id(request))


def domain_problem(error: Exception, trace_id: str) -> JSONResponse:
    """The answer to an error of the table."""
    kind = problem_type(error)
    assert kind is not None, "the table ends with TunesmithError"
    more: dict[str, Any] = {}
    detail = str(error)
    if isinstance(error, ProgramError):
        more = {"line": error.line, "column": error.column}
        detail = error.reason
    if kind.status >= 500:  # names paths and servers, which are nobody's business
        log.error("%s", error)
        detail = _SEE_LOG
    return problem(kind, detail, trace_id, _retry_after(error, kind), **more)


def _retry_after(error: Exception, kind: ProblemType) -> dict[str, str] | None:
    if isinstance(error, QuotaExceeded):
        return {"Retry-After": str(error.retry_s)}
    if kind.status != 503:
        return None
    return {"Retry-After": str(_BUSY_S if isinstance(error, DatabaseLocked) else _UNAVAILABLE_S)}


def _validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    kind = ProblemType("invalid-request", 422, "The request is not valid")
    faults = [_fault(fault) for fault in error.errors()[:20]]
    detail = "; ".join(f"{fault['name']}: {fault['detail']}" for fault in faults)
    return problem(kind, detail, _trace_id(request), errors=faults)


def _fault(fault: dict[str, Any]) -> dict[str, str]:
    """Where and why, without repeating the value (it may be large, or a secret)."""
    if fault["type"] == "json_invalid":
        reason = f"no valid JSON at character {fault['loc'][-1]}: {fault.get('ctx', {}).get('error', '')}"
        return {"in": "body", "name": "body", "detail": reason}
    place, *path = [str(part) for part in fault["loc"]]
    unknown = fault["type"] == "extra_forbidden" and place == "body"
    reason = "no such member" if unknown else str(fault["msg"]).removeprefix("Value error, ")
    return {"in": place, "name": ".".join(path) or place, "detail": reason}


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    kind = ProblemType(title.lower().replace(" ", "-"), error.status_code, title)
    headers = dict(error.headers) if error.headers else {}
    detail = str(error.detail)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(allowed_methods(request.app, request.url.path))
        detail = f"It takes {headers['Allow']}, not {request.method[:20]}."
    elif error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"Nothing is at {request.url.path[:200]}; /openapi.json tells what is where."
    return problem(kind, detail, _trace_id(request), headers)


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    kind = ProblemType("internal-error", 500, "The server made a mistake")
    trace_id = _trace_id(request)
    return problem(kind, _SEE_LOG, trace_id, {"X-Request-Id": trace_id})
