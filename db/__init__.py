"""The tuning database: records, what is served for a workload, jobs and artifacts.

``open_store`` and ``Store`` are loaded when they are first used, because SQLAlchemy takes longer to
import than a lookup takes to answer; ``quick_best`` does without it.
"""

from typing import TYPE_CHECKING, Any

from tunesmith.db.access import ApiKey, Scope
from tunesmith.db.errors import (
    Ambiguous,
    BadCursor,
    BadQuery,
    Conflict,
    DatabaseLocked,
    DatabaseUnavailable,
    IdempotencyMismatch,
    IllegalTransition,
    LeaseLost,
    NotFound,
    SchemaTooNew,
    StoreError,
    VersionMismatch,
)
from tunesmith.db.lookup import quick_best
from tunesmith.db.states import JobState, TaskState, Verb
from tunesmith.db.urls import default_url
from tunesmith.db.values import (
    Artifact,
    Best,
    Fence,
    Job,
    JobEvent,
    JobSpec,
    JobTask,
    Match,
    Neighbour,
    Order,
    Page,
    RecordSummary,
    TaskSpec,
    WorkloadSummary,
)

if TYPE_CHECKING:
    from tunesmith.db.store import Store, open_store

__all__ = [
    "Ambiguous",
    "ApiKey",
    "Artifact",
    "BadCursor",
    "BadQuery",
    "Best",
    "Conflict",
    "DatabaseLocked",
    "DatabaseUnavailable",
    "Fence",
    "IdempotencyMismatch",
    "IllegalTransition",
    "Job",
    "JobEvent",
    "JobSpec",
    "JobState",
    "JobTask",
    "LeaseLost",
    "Match",
    "Neighbour",
    "NotFound",
    "Order",
    "Page",
    "RecordSummary",
    "SchemaTooNew",
    "Scope",
    "Store",
    "StoreError",
    "TaskSpec",
    "TaskState",
    "Verb",
    "VersionMismatch",
    "WorkloadSummary",
    "default_url",
    "open_store",
    "quick_best",
]


def __getattr__(name: str) -> Any:
    if name in ("Store", "open_store"):
        from tunesmith.db import store

        return getattr(store, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
