"""JSON of programs: exact both ways, and nothing else is accepted."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_samples import CONV, DENSE, TEXTS

from tunesmith.ir import LimitError, Limits, ProgramError, parse, program_from_json, program_to_json


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip_through_text(text: str) -> None:
    p = parse(text)
    assert program_from_json(json.loads(json.dumps(program_to_json(p), allow_nan=False))) == p


def test_special_constants() -> None:
    p = parse("def f(x: f32[4]):\n    return max(x, -inf), x + nan")
    again = program_from_json(json.loads(json.dumps(program_to_json(p), allow_nan=False)))
    assert repr(again) == repr(p)


def _paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [at]
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        out += _paths(value, (*at, key))
    return out


CONV_JSON = program_to_json(parse(CONV))
PATHS = _paths(CONV_JSON)
HOSTILE = [
    None,
    True,
    -1,
    0,
    1 << 70,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "load",
    "i1",
    [],
    {},
    [[]],
    "\ud800",
    [0],
]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(PATHS[1:]), st.sampled_from(HOSTILE))
def test_changed_json_is_refused_or_is_a_program(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(CONV_JSON)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    try:
        program = program_from_json(data)
    except ProgramError as e:
        str(e).encode()
        return
    assert program_from_json(program_to_json(program)) == program or "nan" in repr(program)


@pytest.mark.parametrize("data", HOSTILE)
def test_anything_else_is_refused(data: Any) -> None:
    with pytest.raises(ProgramError):
        program_from_json(data)


def test_deep_expressions_are_refused() -> None:
    data = program_to_json(parse(DENSE))
    body: list[Any] = ["const", 1]
    for _ in range(5000):
        body = ["unary", "neg", body]
    data["stages"][0]["body"] = body
    with pytest.raises(LimitError):
        program_from_json(data)


def test_versions_and_unknown_fields_are_refused() -> None:
    data = program_to_json(parse(DENSE))
    with pytest.raises(ProgramError, match="version must be 1"):
        program_from_json({**data, "version": 2})
    with pytest.raises(ProgramError, match="exactly"):
        program_from_json({**data, "extra": 1})


def test_limits_hold() -> None:
    data = program_to_json(parse(DENSE))
    for limits in (Limits(stages=1), Limits(inputs=2), Limits(nodes=3), Limits(extent=10), Limits(name=2)):
        with pytest.raises(LimitError):
            program_from_json(data, limits)
