"""What can go wrong with the database, in words of the domain. None of them knows SQL or HTTP.

StoreError(TunesmithError)
  DatabaseUnavailable       cannot be used: missing folder, not a database, read-only, corrupt, full
  DatabaseLocked            another process keeps it locked; the same call may succeed later
  SchemaTooNew              written by a newer Tunesmith
  NotFound                  no such record, job, workload …
    Ambiguous               an abbreviated id fits several records
  BadQuery                  a filter or order that cannot be answered
    BadCursor               a cursor that is malformed or belongs to another query
  Conflict                  the thing exists, but its state forbids the act
    VersionMismatch         the thing has changed since the caller looked at it
    IllegalTransition       a job cannot go from its state to the wanted one
    LeaseLost               the job now belongs to another worker, or to none
    IdempotencyMismatch     an idempotency key was used before with another request
"""

from tunesmith.ir.errors import TunesmithError

__all__ = [
    "Ambiguous",
    "BadCursor",
    "BadQuery",
    "Conflict",
    "DatabaseLocked",
    "DatabaseUnavailable",
    "IdempotencyMismatch",
    "IllegalTransition",
    "LeaseLost",
    "NotFound",
    "SchemaTooNew",
    "StoreError",
    "VersionMismatch",
]


class StoreError(TunesmithError):
    """Anything the tuning database reports."""


class DatabaseUnavailable(StoreError):
    """The database cannot be opened or used; the message says what was found and what to do."""


class DatabaseLocked(StoreError):
    """All retries met a lock. Nothing was written; the call may be repeated."""


class SchemaTooNew(StoreError):
    """``found`` is the schema of the database, ``known`` the newest that this version can use."""

    def __init__(self, where: str, found: str, known: str) -> None:
        super().__init__(
            f"{where} has schema {found}, but this Tunesmith knows schemas up to {known}. "
            "Upgrade Tunesmith (pip install --upgrade tunesmith) or choose another database."
        )
        self.found = found
        self.known = known


class NotFound(StoreError):
    """``kind`` is what was asked for (record, job, …), ``key`` the id it was asked by."""

    def __init__(self, kind: str, key: str, hint: str = "") -> None:
        super().__init__(f"no {kind} {key!r}" + (f"; {hint}" if hint else ""))
        self.kind = kind
        self.key = key


class Ambiguous(NotFound):
    """Several ids begin with the given one; some of them are named."""

    def __init__(self, kind: str, key: str, some: tuple[str, ...]) -> None:
        super().__init__(kind, key, f"several begin like this: {', '.join(some)}. Give more characters")
        self.some = some


class BadQuery(StoreError):
    """The filter or order cannot be answered; the message says which can."""


class BadCursor(BadQuery):
    """A cursor is valid only for the query that gave it: same filters, same order."""


class Conflict(StoreError):
    """The state of the thing forbids what was asked."""


class VersionMismatch(Conflict):
    """The change was meant for version ``wanted``, but the thing is at ``found``."""

    def __init__(self, key: str, wanted: int, found: int) -> None:
        super().__init__(f"{key} has changed: it is at version {found}, not {wanted}; look at it again")
        self.wanted = wanted
        self.found = found


class IllegalTransition(Conflict):
    """Job ``job_id`` is ``state`` and cannot become ``wanted``."""

    def __init__(self, job_id: str, state: str, wanted: str) -> None:
        super().__init__(f"job {job_id} is {state} and cannot become {wanted}")
        self.job_id = job_id
        self.state = state
        self.wanted = wanted


class LeaseLost(Conflict):
    """The caller no longer holds the job: its lease ran out, or the job ended. Stop working on it."""

    def __init__(self, job_id: str, owner: str) -> None:
        super().__init__(f"{owner} no longer holds job {job_id}")
        self.job_id = job_id
        self.owner = owner


class IdempotencyMismatch(Conflict):
    """The key already stands for another request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"idempotency key {key!r} was used before with another request; choose a new key")
        self.key = key
