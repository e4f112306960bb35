"""Which database a command uses: --db, else TUNESMITH_DB, else the user's own."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunesmith.db import Store

__all__ = ["add_password", "database_url", "open_database"]


def database_url(flag: str | None) -> str | None:
    """None stands for the user's own database. The password may be in a file, $TUNESMITH_DB_PASSWORD_FILE."""
    url = flag or os.environ.get("TUNESMITH_DB") or None
    return add_password(url, os.environ.get("TUNESMITH_DB_PASSWORD_FILE", ""))


def add_password(url: str | None, file: str) -> str | None:
    """Of PostgreSQL: other databases have none. Raises ``DatabaseUnavailable`` when it cannot be read."""
    if not file or url is None or not url.startswith("postgres"):
        return url
    from tunesmith.db import DatabaseUnavailable
    from tunesmith.db.urls import with_password

    try:
        password = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as fault:
        raise DatabaseUnavailable(f"the password of the database cannot be read from {file}") from fault
    return with_password(url, password)


def open_database(flag: str | None, *, create: bool = False) -> "Store":
    """Only commands that write records create a database; the others tell that there is none."""
    from tunesmith.db import open_store

    return open_store(database_url(flag), create=create)
