"""Events of a job as they happen, over connections that may break (server-sent events)."""

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tunesmith.client.errors import ServiceError, Unreachable
from tunesmith.client.transport import Transport, reason_of

__all__ = ["ENDED", "JobEvent", "watch"]

ENDED = frozenset({"succeeded", "failed", "stopped", "cancelled"})
_SILENCE_S = 45.0  # the service says something every 15
_PATIENCE_S = 300.0  # without an answer
_LONGEST_LINE = 1 << 20
_WORTH_WAITING = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class JobEvent:
    """``kind`` is ``state``, ``progress`` or ``best``; ``data`` is its document, with ``job`` and ``at``.
    ``id`` is None for a state that was made up from the job, its events being older than what is kept."""

    id: int | None
    kind: str
    data: dict[str, Any]

    @property
    def is_last(self) -> bool:
        return self.kind == "state" and self.data.get("state") in ENDED


def watch(
    transport: Transport, job_id: str, after: int | None = None, *, patience_s: float = _PATIENCE_S
) -> Iterator[JobEvent]:
    """All events of a job after one that is known, by default from the first, until it has ended.

    A broken connection is made anew where it broke: no event is missed or comes twice. Raises
    ``Unreachable`` when there was no answer for ``patience_s`` seconds, ``ServiceError`` for a refusal.
    """
    wait_s, heard_at = 0.2, time.monotonic()
    while True:
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        try:
            with transport.stream(f"/v1/jobs/{job_id}/events", headers, _SILENCE_S) as response:
                if response.status == 204:  # it has ended, and all is known
                    return
                for event in _events(response):
                    wait_s, heard_at = 0.2, time.monotonic()
                    if event.id is not None:
                        if after is not None and event.id <= after:
                            continue
                        after = event.id
                    yield event
                    if event.is_last:
                        return
            fault: Exception | None = None
        except (OSError, ValueError, http.client.HTTPException) as broken:
            fault = broken
        except ServiceError as refused:
            if refused.status not in _WORTH_WAITING:
                raise
            fault, wait_s = refused, max(wait_s, refused.retry_after_s or 0.0)
        if time.monotonic() - heard_at > patience_s:
            raise Unreachable(transport.url, reason_of(fault) if fault else "events end at once") from fault
        time.sleep(min(wait_s, patience_s))
        wait_s = min(2 * wait_s, 10.0)


def _events(response: http.client.HTTPResponse) -> Iterator[JobEvent]:
    """As the HTML standard reads a stream, as far as the service uses it."""
    event_id: int | None = None
    kind, data = "message", ""
    while line := response.readline(_LONGEST_LINE):
        if not line.endswith(b"\n"):
            return  # torn, or beyond all bounds: asked for again
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if not text:
            if data:
                yield JobEvent(event_id, kind, json.loads(data))
            event_id, kind, data = None, "message", ""
        elif name == "id" and value.isdecimal():
            event_id = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data += value
