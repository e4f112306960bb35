"""Schedules as data."""

import json
from typing import Any

import pytest

from tunesmith.schedule import (
    PREPARE,
    SCHEMA_VERSION,
    CacheWrite,
    ComputeAt,
    Fuse,
    Inline,
    Join,
    Pack,
    Parallel,
    Part,
    Reorder,
    RFactor,
    Schedule,
    ScheduleError,
    Split,
    Step,
    Stream,
    Tail,
    Unroll,
    Vectorize,
)

STEPS: tuple[Step, ...] = (
    Inline("a"),
    CacheWrite("a"),
    RFactor("a", "k", 4, Part.OUTER),
    ComputeAt("a", "b", "i.0"),
    Join("a", "b"),
    Split("a", "i", (2, 3), Tail.MASK),
    Fuse("a", "i", "j"),
    Reorder("a", ("j", "i")),
    Unroll("a", "i"),
    Vectorize("a", "i"),
    Parallel("a", "i"),
    Stream("a"),
    Pack("a", "x", ("a.i", "b.j"), PREPARE),
)


def test_every_kind_of_step_is_here() -> None:
    assert {type(s) for s in STEPS} == set(Step.__args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", STEPS, ids=lambda s: type(s).__name__)
def test_json_round_trip(step: Step) -> None:
    schedule = Schedule((step, step))
    text = json.dumps(schedule.to_json())
    again = Schedule.from_json(json.loads(text))
    assert again == schedule and again.hash == schedule.hash
    assert [type(s) for s in again.steps] == [type(step)] * 2


def test_hashes_tell_schedules_apart() -> None:
    assert len({Schedule((s,)).hash for s in STEPS}) == len(STEPS)


def steps(*items: Any) -> dict[str, Any]:
    return {"version": SCHEMA_VERSION, "steps": list(items)}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "",
        {},
        {"version": SCHEMA_VERSION},
        {"version": SCHEMA_VERSION + 1, "steps": []},
        {"version": str(SCHEMA_VERSION), "steps": []},
        {"version": SCHEMA_VERSION, "steps": "inline"},
        {"version": SCHEMA_VERSION, "steps": {"0": ["inline", "a"]}},
        {"version": SCHEMA_VERSION, "steps": [["inline", "a"]] * 10_001},
        steps("inline"),
        steps([]),
        steps(["explode", "a"]),
        steps([["inline"], "a"]),
        steps([None, "a"]),
        steps([{}, "a"]),
        steps(["inline"]),
        steps(["inline", "a", "b"]),
        steps(["inline", 3]),
        steps(["inline", None]),
        steps(["inline", ["a"]]),
        steps(["split", "a", "i", 4, "peel"]),
        steps(["split", "a", "i", ["4"], "peel"]),
        steps(["split", "a", "i", [4.0], "peel"]),
        steps(["split", "a", "i", [True], "peel"]),
        steps(["split", "a", "i", [4], "bite"]),
        steps(["split", "a", "i", [4], ["peel"]]),
        steps(["split", "a", "i", [4], 0]),
        steps(["split", "a", "i", [1 << 80], "peel"]),
        steps(["rfactor", "a", "k", "4", "inner"]),
        steps(["rfactor", "a", "k", True, "inner"]),
        steps(["rfactor", "a", "k", -(1 << 64), "inner"]),
        steps(["rfactor", "a", "k", 4, "side"]),
        steps(["reorder", "a", "ij"]),
        steps(["reorder", "a", [1, 2]]),
        steps(["reorder", "a", [["i"]]]),
        steps(["pack", "a", "x", ["a.i"]]),
        steps(["pack", "a", "x", ["a.i"], 3]),
        steps({"kind": "inline", "stage": "a"}),
    ],
    ids=lambda d: json.dumps(d)[:60],
)
def test_anything_else_is_refused(data: Any) -> None:
    with pytest.raises(ScheduleError):
        Schedule.from_json(data)
