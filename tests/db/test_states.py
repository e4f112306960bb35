"""All forty-nine moves between the states of a job."""

import itertools

import pytest

from tunesmith.db import IllegalTransition, JobState
from tunesmith.db.states import TERMINAL, TRANSITIONS, check_transition

LEGAL = {
    ("queued", "running"),
    ("queued", "paused"),
    ("queued", "stopped"),
    ("queued", "cancelled"),
    ("running", "queued"),
    ("running", "paused"),
    ("running", "stopped"),
    ("running", "cancelled"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("paused", "queued"),
    ("paused", "stopped"),
    ("paused", "cancelled"),
}


@pytest.mark.parametrize(("state", "wanted"), [*itertools.product(JobState, JobState)])
def test_transitions(state: JobState, wanted: JobState) -> None:
    if (state, wanted) in LEGAL:
        check_transition("j", state, wanted)
    else:
        with pytest.raises(IllegalTransition, match=f"j is {state} and cannot become {wanted}"):
            check_transition("j", state, wanted)


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert {"succeeded", "failed", "stopped", "cancelled"} == TERMINAL
