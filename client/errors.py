"""What goes wrong between a client and a service.

ClientError
  Unreachable     no answer: nobody listens, the connection broke, time is up
  ServiceError    an answer that refuses; carries the problem document (RFC 9457)
  JobEnded        a job that was waited for has ended without a result
"""

from collections.abc import Mapping
from typing import Any

from tunesmith import TunesmithError

__all__ = ["ClientError", "JobEnded", "ServiceError", "Unreachable"]

_SELF_EXPLANATORY = frozenset({401, 403, 404, 409, 412, 422})  # the detail says it all


class ClientError(TunesmithError):
    """Anything that keeps a client from its answer."""


class Unreachable(ClientError):
    """The service gave no answer; ``url`` is what was asked."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no answer from {url}: {reason}")
        self.url = url


class ServiceError(ClientError):
    """The service refuses. ``status`` is HTTP's; ``trace_id`` finds the request in the server's log;
    ``line`` and ``column`` (from 1, 0 unknown) are those of a faulty program; ``retry_after_s`` is when it is
    worth to ask again, if the service said so; ``errors`` say what is wrong with single members."""

    def __init__(self, status: int, document: Mapping[str, Any], retry_after_s: float | None = None) -> None:
        self.status = status
        self.slug = str(document.get("type", "")).rpartition(":")[2]
        self.title = str(document.get("title") or f"HTTP {status}")
        self.detail = str(document.get("detail") or "")
        self.trace_id = str(document.get("trace_id") or "")
        self.line, self.column = _count(document.get("line")), _count(document.get("column"))
        self.errors = [e for e in document.get("errors") or () if isinstance(e, Mapping)]
        self.retry_after_s = retry_after_s
        super().__init__(self._text())

    def _text(self) -> str:
        where = f"line {self.line}, column {self.column}: " if self.line else ""
        enough = self.detail and self.status in _SELF_EXPLANATORY
        said = [self.detail] if enough else [part for part in (self.title, self.detail) if part]
        trace = f" [{self.trace_id}]" if self.status >= 500 and self.trace_id else ""
        return where + ": ".join(said) + trace


class JobEnded(ClientError):
    """The job ended in ``state`` without a kernel; ``job`` is its document."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = job
        self.state = str(job.get("state"))
        error = job.get("error")
        super().__init__(f"job {job.get('id')} {self.state}" + (f": {error}" if error else ""))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
