"""The life of a job: its states and the moves between them.

queued ──▶ running ──▶ succeeded | failed | cancelled
  │           │
  │           └──▶ queued        the worker stopped or died; the job goes on elsewhere
  └──▶ cancelled
"""

from enum import StrEnum

from tunesmith.db.errors import IllegalTransition

__all__ = ["TERMINAL", "TRANSITIONS", "JobState", "check_transition"]


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELLED}),
    JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.QUEUED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}

TERMINAL = frozenset(state for state, onward in TRANSITIONS.items() if not onward)


def check_transition(job_id: str, state: JobState, wanted: JobState) -> None:
    """Raises ``IllegalTransition`` unless a job may go from ``state`` to ``wanted``."""
    if wanted not in TRANSITIONS[state]:
        raise IllegalTransition(job_id, state.value, wanted.value)
