"""Which database a command uses: --db, else TUNESMITH_DB, else the user's own."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunesmith.db import Store

__all__ = ["database_url", "open_database"]


def database_url(flag: str | None) -> str | None:
    """None stands for the user's own database."""
    return flag or os.environ.get("TUNESMITH_DB") or None


def open_database(flag: str | None, *, create: bool = False) -> "Store":
    """Only commands that write records create a database; the others tell that there is none."""
    from tunesmith.db import open_store

    return open_store(database_url(flag), create=create)
