"""Faults of the drivers as errors of the domain."""

import sqlalchemy as sa

from tunesmith.db.errors import BadQuery, DatabaseLocked, DatabaseUnavailable, StoreError

__all__ = ["UNSTORABLE", "is_read_only", "is_transient", "locked", "translate"]

UNSTORABLE = "a text or number is none that the database can hold: a null or half character, a year 0"

_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")
_POSTGRES_LOCKED = ("40001", "40P01", "55P03", "57014")
_POSTGRES_ADVICE = {  # by the beginning of the state
    "25006": "takes no changes: it is read-only (a standby?)",
    "53": "has no room left: disk, memory or connections",
    "57P": "is shutting down or starting up",
    "58": "cannot be read or written: its system reports errors",
}
_ADVICE = {
    "SQLITE_CANTOPEN": "cannot be opened. Check that the folder exists and that you may write to it",
    "SQLITE_NOTADB": "is not a SQLite database. Choose another file, or move this one away",
    "SQLITE_CORRUPT": "is damaged. Restore a backup, or save what is left with: sqlite3 FILE .recover",
    "SQLITE_READONLY": "is not writable. Check the permissions of the file and its folder",
    "SQLITE_PERM": "is not accessible. Check the permissions of the file and its folder",
    "SQLITE_FULL": "cannot grow: the disk is full. Free some space and repeat",
    "SQLITE_IOERR": "cannot be read or written: the disk reports errors, or the file system has no locks",
}


def is_transient(fault: sa.exc.DBAPIError) -> bool:
    """Whether the same transaction may succeed when tried again."""
    return _sqlite_name(fault).startswith(_LOCKED) or _sqlstate(fault) in _POSTGRES_LOCKED


def is_read_only(fault: sa.exc.DBAPIError) -> bool:
    """Whether it is SQLite's file that may not be written, or is no longer where it was opened."""
    return _sqlite_name(fault).startswith("SQLITE_READONLY")


def locked(where: str) -> DatabaseLocked:
    return DatabaseLocked(f"{where} is locked by another process. Repeat, or stop the other process.")


def translate(fault: sa.exc.DBAPIError, where: str) -> StoreError | None:
    """The domain's error, or None for a fault that is our own mistake (bad SQL, broken constraint)."""
    if is_transient(fault):
        return locked(where)
    if isinstance(fault, sa.exc.DataError):
        return BadQuery(UNSTORABLE)
    name = _sqlite_name(fault)
    for prefix, advice in _ADVICE.items():
        if name.startswith(prefix):
            return DatabaseUnavailable(f"{where} {advice}. ({fault.orig})")
    for prefix, advice in _POSTGRES_ADVICE.items():
        if _sqlstate(fault).startswith(prefix):
            return DatabaseUnavailable(f"{where} {advice}. ({fault.orig})")
    if fault.connection_invalidated or (isinstance(fault, sa.exc.OperationalError) and not name):
        return DatabaseUnavailable(f"{where} does not answer. Check that the server runs. ({fault.orig})")
    return None


def _sqlite_name(fault: sa.exc.DBAPIError) -> str:
    return getattr(fault.orig, "sqlite_errorname", None) or ""


def _sqlstate(fault: sa.exc.DBAPIError) -> str:
    return getattr(fault.orig, "sqlstate", None) or ""
