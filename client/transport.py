"""Requests over HTTP: connections that are kept, timeouts everywhere, and retries that repeat nothing twice.

A request is sent again only if doing it twice is as good as once: reading, and writing under an
``Idempotency-Key``. Redirects are not followed: the key would go wherever an answer points.
"""

import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tunesmith.client.errors import ServiceError, Unreachable

__all__ = ["Answer", "Transport", "reason_of"]

_MOST_BYTES = 256 << 20
_ATTEMPTS = 5
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 30.0
_WORTH_REPEATING = frozenset({429, 502, 503, 504})
_KEPT = 8  # idle connections
_FAULTS = (OSError, http.client.HTTPException)


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer. ``headers`` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Transport:
    """One service. Thread-safe: every request that runs has a connection of its own.

    Raises ``ValueError`` for what is no http or https URL, or carries a user or a password.
    """

    def __init__(self, url: str, key: str | None, timeout_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no URL of a service, such as http://localhost:8700")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("the URL of a service has no user, query or fragment; give the key as `key`")
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key and key):
            raise ValueError("this is no key: it has characters that no key has")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._prefix = parts.path.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._key = key
        self._timeout_s = timeout_s
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.url}{' with a key' if self._key else ''}>"

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        repeatable: bool | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """``body`` is sent as JSON, bytes as they are. ``repeatable``: by default only GET is.

        Raises ``ServiceError`` for an answer that refuses, ``Unreachable`` without one.
        """
        again = method == "GET" if repeatable is None else repeatable
        target, data = self._target(path, query), body if isinstance(body, bytes) else _encoded(body)
        sent = self._headers(headers, data, isinstance(body, bytes))
        for attempt in range(1, _ATTEMPTS + 1):
            last = not again or attempt == _ATTEMPTS
            wait_s = min(_FIRST_WAIT_S * 4 ** (attempt - 1), _LONGEST_WAIT_S) * random.uniform(0.5, 1.0)
            try:
                return self._once(method, target, data, sent)
            except ConnectionRefusedError as fault:  # not even begun: to wait is the caller's affair
                raise Unreachable(self.url, reason_of(fault)) from fault
            except _FAULTS as fault:
                if last:
                    raise Unreachable(self.url, reason_of(fault)) from fault
            except ServiceError as fault:
                if last or fault.status not in _WORTH_REPEATING:
                    raise
                wait_s = min(max(wait_s, fault.retry_after_s or 0.0), _LONGEST_WAIT_S)
            time.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def stream(
        self, path: str, headers: Mapping[str, str], silence_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer to be read as it comes; silence for so long is a fault (``OSError``)."""
        connection = self._connect(silence_s)
        try:
            connection.request("GET", self._target(path, None), headers=self._headers(headers, None, False))
            response = connection.getresponse()
            if response.status >= 300:
                raise _refusal(response, response.read(1 << 20))
            yield response
        finally:
            connection.close()

    def _target(self, path: str, query: Mapping[str, Any] | None) -> str:
        given = {k: v for k, v in (query or {}).items() if v is not None}
        given = {k: str(v).lower() if isinstance(v, bool) else v for k, v in given.items()}
        return self._prefix + quote(path, safe="/:") + (f"?{urlencode(given)}" if given else "")

    def _headers(self, more: Mapping[str, str] | None, data: bytes | None, is_lines: bool) -> dict[str, str]:
        headers = {"Accept": "application/json", **(more or {})}
        if data is not None:
            headers["Content-Type"] = "application/x-ndjson" if is_lines else "application/json"
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)

    def _once(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        with self._lock:
            idle = self._idle.pop() if self._idle and method == "GET" else None
        if idle is not None:
            with suppress(ConnectionError, http.client.BadStatusLine):  # closed by the service meanwhile
                return self._exchange(idle, method, target, data, headers)
        return self._exchange(self._connect(self._timeout_s), method, target, data, headers)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> Answer:
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            body = response.read(_MOST_BYTES + 1)
            if len(body) > _MOST_BYTES:
                raise http.client.HTTPException("the answer is larger than 256 MiB")
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        if response.status >= 300:
            raise _refusal(response, body)
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, body)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()


def _encoded(body: Any) -> bytes | None:
    return None if body is None else json.dumps(body, allow_nan=False).encode()


def _refusal(response: http.client.HTTPResponse, body: bytes) -> ServiceError:
    document: Any = None
    with suppress(ValueError):
        document = json.loads(body)
    if not isinstance(document, dict):
        where = response.getheader("Location")
        moved = f"it redirects to {where}; use that URL" if where and response.status < 400 else ""
        detail = moved or "this is no answer of Tunesmith's; is the URL that of a service?"
        document = {"title": f"HTTP {response.status} {response.reason}", "detail": detail}
    return ServiceError(response.status, document, _seconds(response.getheader("Retry-After")))


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def reason_of(fault: BaseException) -> str:
    """What went wrong with a connection, in words."""
    if isinstance(fault, TimeoutError):
        return "time is up"
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
