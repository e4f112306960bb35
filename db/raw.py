"""SQLite connections as every part of ``db`` opens them. Standard library only."""

import json
import math
import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["compact_json", "connect_sqlite"]


def connect_sqlite(path: Path, *, read_only: bool, busy_timeout_s: float) -> sqlite3.Connection:
    """A connection without implicit transactions, usable from any one thread at a time.

    The file must exist: opening never creates one, so that a mistyped path is an error. Where the folder
    cannot be written, the file can be read all the same, unless what was written last is still in its log.
    """
    mode = "ro&immutable=1" if _is_still(path) else "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA foreign_keys=ON")
    if mode == "rw":
        connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def _is_still(path: Path) -> bool:
    """Whether nobody can be writing: SQLite shares a file by two others beside it, and here none can be made.
    """
    if os.access(path.parent, os.W_OK):
        return False
    beside = {end: path.with_name(path.name + end) for end in ("-wal", "-journal", "-shm")}
    pending = any(_size(beside[end]) for end in ("-wal", "-journal"))
    return not pending and (not beside["-shm"].exists() or _is_read_only(path.parent))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_read_only(folder: Path) -> bool:
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


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
