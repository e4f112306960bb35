"""Any legal schedule of any program computes what the program says."""

import numpy as np
from campaign import examples
from check_results import CPUS, check_compiled, check_interpreted, target
from hypothesis import event, given
from hypothesis import strategies as st
from random_programs import programs, short_programs
from random_schedules import JOINED, NESTED, schedules

from tunesmith.ir import Program
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Schedule, lower
from tunesmith.search.default import default_schedule
from tunesmith.search.population import sample
from tunesmith.search.space import derive

MACHINES = (("host", 64, 32), ("x86-64-v3", 32, 16), ("x86-64", 16, 16), ("host", 16, 32))
"""What to make code for, the bytes of its vectors and how many of them it has."""


@examples(500)
@given(st.data())
def test_random_steps(data: st.DataObject) -> None:
    program = data.draw(programs())
    schedule = data.draw(schedules(program))
    threads, cpu = data.draw(st.sampled_from([1, 1, 2])), data.draw(st.sampled_from(("host", *CPUS)))
    _check(program, schedule, target(threads, cpu))


@examples(400)
@given(st.data())
def test_nested_tiles_and_their_tails(data: st.DataObject) -> None:
    program = data.draw(short_programs())
    schedule = data.draw(schedules(program, NESTED))
    try:
        nest = lower(program, schedule)
    except IllegalStep as e:
        event(f"illegal: {e.reason[:30]}")
        return
    check_interpreted(program, nest)


@examples(200)
@given(st.data())
def test_joined_loops(data: st.DataObject) -> None:
    program = data.draw(programs())
    _check(program, data.draw(schedules(program, JOINED)), target(data.draw(st.sampled_from([1, 2]))))


@examples(150)
@given(st.data())
def test_sketches_with_random_knobs(data: st.DataObject) -> None:
    program = data.draw(programs())
    machine = target(data.draw(st.sampled_from([1, 2])), *data.draw(st.sampled_from(MACHINES)))
    sketch = data.draw(st.sampled_from(derive(program, machine).sketches))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    for row in sample(sketch, 2, rng)[:2]:
        schedule = sketch.decode(row)
        again = sketch.encode(schedule)
        assert again is not None and sketch.decode(again) == schedule
        _check(program, schedule, machine)


@examples(50)
@given(st.data())
def test_the_untuned_schedule_is_always_legal(data: st.DataObject) -> None:
    program = data.draw(programs())
    machine = target(data.draw(st.sampled_from([1, 2])), *data.draw(st.sampled_from(MACHINES)))
    nest = lower(program, default_schedule(program, machine))
    check_interpreted(program, nest)
    check_compiled(program, nest, machine)


def _check(program: Program, schedule: Schedule, machine: Target) -> None:
    try:
        nest = lower(program, schedule)
        check_interpreted(program, nest)
        check_compiled(program, nest, machine)
    except IllegalStep as e:
        event(f"illegal: {e.reason[:30]}")
