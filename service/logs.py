"""Log lines, as text or JSON: each says what request, job and record it is about.

Every library's lines take the same form. Secrets are kept out where they are known, and once more here: keys
and passwords in URLs are blotted out of whatever is written.
"""

import contextlib
import datetime as dt
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

__all__ = ["FORMATS", "LEVELS", "JsonLines", "TextLines", "about", "begin", "configure", "with_fields"]

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_context: ContextVar[Mapping[str, str]] = ContextVar("tunesmith_log_context", default={})  # noqa: B039
_KEY = re.compile(r"(tsk_[A-Za-z0-9_-]{8})[A-Za-z0-9_-]+")
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s@]+@")
_BEARER = re.compile(r"(?i)(\bbearer\s+)(?!realm)[^\s'\"]+")
_BELOW_WARNING = ("tunesmith", "uvicorn")  # what others have to say below that may hold values of requests


@contextlib.contextmanager
def about(**ids: str) -> Iterator[None]:
    """Lines written inside, by this thread or task and what it starts, carry these ``request_id``,
    ``job_id``, ``record_id``."""
    token = _context.set({**_context.get(), **ids})
    try:
        yield
    finally:
        _context.reset(token)


def begin(**ids: str) -> None:
    """As ``about``, to the end of the task."""
    _context.set(ids)


def with_fields(**fields: Any) -> dict[str, Any]:
    """``log.info("…", extra=with_fields(status=200))``: members of a JSON line beyond its message."""
    return {"fields": fields}


def configure(level: str, form: str) -> None:
    """For the whole process, on standard error. Call it once, where the process starts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    number = logging.getLevelNamesMapping()[level.upper()]
    for name in _BELOW_WARNING:
        logging.getLogger(name).setLevel(number)
    logging.captureWarnings(True)


class TextLines(logging.Formatter):
    """``TIME LEVEL LOGGER: MESSAGE [job_id=…]``. Nothing in a message begins a line of its own; tracebacks
    follow indented."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        ids = " ".join(f"{name}={value}" for name, value in _context.get().items() if value not in message)
        line = f"{_time(record)} {record.levelname.lower():<7} {record.name}: {message}"
        lines = [_escaped(line + (f" [{ids}]" if ids else ""))]
        lines += [f"    {_escaped(below)}" for below in _traceback(self, record).splitlines()]
        return _without_secrets("\n".join(lines))


class JsonLines(logging.Formatter):
    """One object a line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_context.get(),
            **getattr(record, "fields", {}),
        }
        if traceback := _traceback(self, record):
            line["exception"] = traceback
        return json.dumps({name: _clean(value) for name, value in line.items()}, default=str)


def _clean(value: Any) -> Any:
    return _without_secrets(value) if isinstance(value, str) else value


def _time(record: logging.LogRecord) -> str:
    at = dt.datetime.fromtimestamp(record.created, dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _escaped(text: str) -> str:
    """Control characters would forge lines and command terminals."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _without_secrets(text: str) -> str:
    text = _KEY.sub(r"\1…", text)
    return _BEARER.sub(r"\1…", _PASSWORD.sub(r"\1…@", text))
