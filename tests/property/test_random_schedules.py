"""Any legal schedule of any program computes what the program says."""

import numpy as np
from campaign import examples
from check_results import check_compiled, check_interpreted, host_target
from hypothesis import event, given
from hypothesis import strategies as st
from random_programs import programs
from random_schedules import schedules

from tunesmith.ir import Program
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Schedule, lower
from tunesmith.search.default import default_schedule
from tunesmith.search.population import sample
from tunesmith.search.space import derive

VECTOR_UNITS = ((64, 32), (32, 16), (16, 16), (16, 32))


@examples(500)
@given(st.data())
def test_random_steps(data: st.DataObject) -> None:
    program = data.draw(programs())
    schedule = data.draw(schedules(program))
    _check(program, schedule, host_target(data.draw(st.sampled_from([1, 1, 2]))))


@examples(150)
@given(st.data())
def test_sketches_with_random_knobs(data: st.DataObject) -> None:
    program = data.draw(programs())
    unit = data.draw(st.sampled_from(VECTOR_UNITS))
    target = host_target(data.draw(st.sampled_from([1, 2])), *unit)
    sketch = data.draw(st.sampled_from(derive(program, target).sketches))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    for row in sample(sketch, 2, rng)[:2]:
        schedule = sketch.decode(row)
        again = sketch.encode(schedule)
        assert again is not None and sketch.decode(again) == schedule
        _check(program, schedule, target)


@examples(50)
@given(st.data())
def test_the_untuned_schedule_is_always_legal(data: st.DataObject) -> None:
    program = data.draw(programs())
    target = host_target(data.draw(st.sampled_from([1, 2])), *data.draw(st.sampled_from(VECTOR_UNITS)))
    nest = lower(program, default_schedule(program, target))
    check_interpreted(program, nest)
    check_compiled(program, nest, target)


def _check(program: Program, schedule: Schedule, target: Target) -> None:
    try:
        nest = lower(program, schedule)
        check_interpreted(program, nest)
        check_compiled(program, nest, target)
    except IllegalStep as e:
        event(f"illegal: {e.reason[:30]}")
