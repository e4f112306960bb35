"""Where the database is."""

import os
from pathlib import Path

from tunesmith.db.errors import DatabaseUnavailable

__all__ = ["default_url", "normalize", "sqlite_path"]

_SQLITE = "sqlite:///"


def default_url() -> str:
    """The user's own database, a SQLite file in the platform's data folder. Touches nothing."""
    from platformdirs import user_data_path  # 20 ms that callers with a URL of their own need not pay

    return f"{_SQLITE}{user_data_path('tunesmith') / 'tunesmith.db'}"


def normalize(url: str | os.PathLike[str]) -> str:
    """A URL with its driver; a text without ``://`` is the path of a SQLite file.

    Raises ``DatabaseUnavailable`` for an in-memory database (each connection would see its own) and
    for kinds of database that are not supported.
    """
    text = os.fspath(url)
    if "://" not in text:
        if text not in ("", ":memory:"):
            return f"{_SQLITE}{Path(text).expanduser().absolute()}"
        text = _SQLITE
    scheme, _, rest = text.partition("://")
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _file_url(rest)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return f"postgresql+psycopg://{rest}"
    raise DatabaseUnavailable(
        f"{scheme}: is not a supported database. Use sqlite:////path/to/file.db or postgresql://user@host/name."
    )


def sqlite_path(url: str) -> Path | None:
    """The file of a normalized SQLite URL; None for other databases."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def _file_url(rest: str) -> str:
    path = rest.removeprefix("/")
    if not path or ":memory:" in path or "mode=memory" in path:
        raise DatabaseUnavailable(
            "an in-memory database would be empty for every thread and gone at exit. "
            "Give a file: sqlite:////path/to/file.db."
        )
    if "?" in path:
        raise DatabaseUnavailable(f"sqlite URL options are not supported: {path.partition('?')[2]!r}")
    return f"{_SQLITE}{path}"
