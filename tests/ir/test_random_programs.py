"""What must hold of any program."""

import json

import numpy as np
from hypothesis import assume, given, settings
from ir_samples import inputs_of, plain_nest, programs

from tunesmith.ir import (
    Program,
    Stage,
    canonical,
    evaluate,
    format_program,
    parse,
    program_from_json,
    program_to_json,
    run_nest,
    structure_hash,
    verify_program,
    workload_hash,
)
from tunesmith.ir.expr import loads

few = settings(max_examples=60, deadline=None)


@few
@given(programs())
def test_the_reference_is_what_plain_loops_compute(program: Program) -> None:
    verify_program(program)
    inputs = inputs_of(program)
    expected = run_nest(plain_nest(program), inputs)
    for name, array in evaluate(program, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-12, atol=1e-12)


@few
@given(programs())
def test_json_round_trip_is_exact(program: Program) -> None:
    assert program_from_json(json.loads(json.dumps(program_to_json(program)))) == program


@few
@given(programs())
def test_the_canonical_form_is_a_fixed_point_of_the_same_meaning(program: Program) -> None:
    form = canonical(program)
    verify_program(form)
    assert canonical(form) == form
    assert workload_hash(form) == workload_hash(program)
    assert structure_hash(form) == structure_hash(program)
    inputs = inputs_of(program)
    renamed = {f"x{n}": inputs[t.name] for n, t in enumerate(program.inputs)}
    pairs = zip(evaluate(program, inputs).values(), evaluate(form, renamed).values(), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def _can_be_said(stage: Stage) -> bool:
    """A reduction uses all of its axes."""
    used = {n for load in loads(stage.body) for i in load.index for n in i.names}
    return stage.reducer is None or used.issuperset(a.name for a in stage.all_axes)


@few
@given(programs())
def test_printed_text_reads_back(program: Program) -> None:
    assume(all(_can_be_said(s) for s in program.stages))
    loaded = {name for s in program.stages for name in s.reads}
    assume(loaded.issuperset(t.name for t in program.inputs))
    assert workload_hash(parse(format_program(program))) == workload_hash(program)
