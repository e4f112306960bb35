"""SQLite connections as every part of ``db`` opens them. Standard library only."""

import json
import math
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["compact_json", "connect_sqlite"]


def connect_sqlite(path: Path, *, read_only: bool, busy_timeout_s: float) -> sqlite3.Connection:
    """A connection without implicit transactions, usable from any one thread at a time.

    The file must exist: opening never creates one, so that a mistyped path is an error.
    """
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA foreign_keys=ON")
    if not read_only:
        connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def compact_json(value: Any) -> str:
    """JSON as the standard has it: numbers that are not finite become null."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
