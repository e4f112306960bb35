"""Known good schedules: picked out of a space by their knobs, and checked to compute the program."""

import numpy as np

from tunesmith.ir import Program, evaluate, run_nest
from tunesmith.schedule import Schedule, Sketch, lower

__all__ = ["check", "with_knobs"]


def with_knobs(sketch: Sketch, **knobs: int) -> Schedule:
    """The schedule of a sketch with these knobs; every other knob has its least value."""
    wanted = {k.replace("_", "."): v for k, v in knobs.items()}
    row = [k.values.index(wanted.pop(k.name, k.values[0])) for k in sketch.knobs]
    assert not wanted, f"no knobs {wanted} among {[k.name for k in sketch.knobs]}"
    return sketch.decode(row)


def check(program: Program, schedule: Schedule) -> str:
    """The nest's text, after a check that it computes the program."""
    nest = lower(program, schedule)
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in program.inputs}
    found = run_nest(nest, inputs)
    for name, expected in evaluate(program, inputs).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-4)
    return str(nest)
