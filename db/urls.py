"""Where the database is."""

import os
import re
from pathlib import Path
from urllib.parse import quote, urlsplit

from tunesmith.db.errors import DatabaseUnavailable

__all__ = ["default_url", "normalize", "sqlite_path", "with_password", "without_password"]

_SQLITE = "sqlite:///"
_SECRETS = re.compile(r"(?<=[?&])((?:ssl)?password=)[^&]*")


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
        return _server_url(rest)
    raise DatabaseUnavailable(
        f"{scheme}: is not a supported database. Use sqlite:////path/to/file.db or postgresql://user@host/name."
    )


def sqlite_path(url: str) -> Path | None:
    """The file of a normalized SQLite URL; None for other databases."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def without_password(url: str) -> str:
    """For messages: ``***`` stands for whatever is secret."""
    head, at, place = _authority(url).rpartition("@")
    name, colon, _ = head.partition(":")
    shown = f"{name}{colon}{'***' if colon else ''}{at}{place}"
    return _SECRETS.sub(r"\1***", url.replace(_authority(url), shown, 1) if at else url)


def with_password(url: str, password: str) -> str:
    """Raises ``DatabaseUnavailable`` for a database that has none, or for a URL that has one already."""
    user, at, place = _authority(url).rpartition("@")
    if not url.startswith("postgres") or not user or ":" in user:
        raise DatabaseUnavailable(
            f"a password can be added to postgresql://user@host/name only, not to {without_password(url)}"
        )
    return url.replace(f"{user}{at}{place}", f"{user}:{quote(password, safe='')}@{place}", 1)


def _authority(url: str) -> str:
    """What stands between ``//`` and the path; slashes in a password are forgiven."""
    _, _, rest = url.partition("://")
    head, at, place = rest.rpartition("@")
    return head + at + re.split("[/?]", place, maxsplit=1)[0]


def _server_url(rest: str) -> str:
    """Checks what drivers would complain about in words that hold the password."""
    user, _, _ = rest.partition("?")[0].rpartition("@")
    try:
        parts = urlsplit(f"//{rest}")
        well_formed = parts.port is not None or not parts.netloc.rpartition("@")[2].partition(":")[2]
    except ValueError:
        well_formed = False
    if not well_formed or re.search("[@/?#]", user):
        raise DatabaseUnavailable(
            "the database's URL cannot be read. Write postgresql://user:password@host:port/name, with"
            " @ as %40, / as %2F, ? as %3F, # as %23 and : as %3A in the password."
        )
    return f"postgresql+psycopg://{rest}"


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
