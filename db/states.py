"""The life of a job: its states, the moves between them, and what users may ask for.

queued ──▶ running ──▶ succeeded | failed | stopped | cancelled
  │ ▲         │
  │ │         ├──▶ queued        the worker ended or died; the job goes on elsewhere
  │ │         └──▶ paused        until it is resumed
  │ └───────────── paused ──▶ stopped | cancelled
  └──▶ paused | stopped | cancelled
"""

from enum import StrEnum

from tunesmith.db.errors import IllegalTransition

__all__ = ["TERMINAL", "TRANSITIONS", "JobState", "TaskState", "Verb", "check_transition"]


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"  # ended early, by request, with what it had
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


_Q, _R, _P = JobState.QUEUED, JobState.RUNNING, JobState.PAUSED
_EARLY = frozenset({JobState.STOPPED, JobState.CANCELLED})

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    _Q: frozenset({_R, _P}) | _EARLY,
    _R: frozenset({_Q, _P, JobState.SUCCEEDED, JobState.FAILED}) | _EARLY,
    _P: frozenset({_Q}) | _EARLY,
    JobState.STOPPED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
}

TERMINAL = frozenset(state for state, onward in TRANSITIONS.items() if not onward)


class Verb(StrEnum):
    """What users ask of a job.

    pause: measure nothing new; what runs is finished. resume: go on. stop: finish what runs, choose the
    winner, and end with what there is. cancel: end at once; what runs is killed.
    """

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    CANCEL = "cancel"

    @property
    def aim(self) -> JobState:
        return _AIMS[self]


_AIMS = {
    Verb.PAUSE: JobState.PAUSED,
    Verb.RESUME: JobState.QUEUED,
    Verb.STOP: JobState.STOPPED,
    Verb.CANCEL: JobState.CANCELLED,
}


class TaskState(StrEnum):
    """Of one computation of a job. It has failed when nothing of it works."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


def check_transition(job_id: str, state: JobState, wanted: JobState) -> None:
    """Raises ``IllegalTransition`` unless a job may go from ``state`` to ``wanted``."""
    if wanted not in TRANSITIONS[state]:
        raise IllegalTransition(job_id, state.value, wanted.value)
