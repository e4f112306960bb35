"""Known good schedules of reductions are in the space, and what they become."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from reaching import check, with_knobs

from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical
from tunesmith.records import Peaks, Target
from tunesmith.schedule import Inline, Pack, RFactor, Schedule, Sketch, Split, Step, lower
from tunesmith.search import derive
from tunesmith.search.population import sample

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
AVX2 = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)
AVX512 = replace(AVX2, cpu="znver4", features="+avx512f,+avx512vl,+fma", vector_bytes=64, vector_registers=32)
Golden = Callable[[str, str], None]


def reach(program: Program, sketch_has: Callable[[Sketch], bool], **knobs: int) -> Schedule:
    """The schedule of the first such sketch with these knobs; every other knob has its least value."""
    sketch = next(s for s in derive(program, AVX2).sketches if sketch_has(s))
    return with_knobs(sketch, **knobs)


def starts_with(step: Step) -> Callable[[Sketch], bool]:
    return lambda sketch: sketch.steps[0] == step


def test_a_convolution_of_seven_by_seven_goes_by_four_and_three_without_padding() -> None:
    program = operator("conv2d(h=7,w=7,ci=8,co=48,k=3,pad=1)")
    schedule = reach(program, starts_with(Inline("p")), y_v_reg=4, y_v_mid=2, y_lanes=8, y_vectors=3)
    assert Split("y", "v", (2, 4)) in schedule.steps
    text = check(program, schedule)
    assert "max(0, -y." in text, "the window starts where there is something"
    assert "unroll y.acc.v in 3" in text, "the last three columns have code of their own"


def test_blocks_of_a_reduction_have_no_guards_where_the_last_tile_is_wider_than_the_result() -> None:
    program = operator("conv2d(h=7,w=7,ci=64,co=40,k=3,pad=1)")

    def blocked(s: Sketch) -> bool:
        return s.steps[0] == Inline("p") and any(isinstance(x, RFactor) for x in s.steps)

    schedule = reach(program, blocked, y_v_reg=4, y_v_mid=2, y_lanes=8, y_vectors=3, y_o_tail=2)
    guards = [line for line in check(program, schedule).splitlines() if "if " in line]
    assert guards and not any("y.acc.o" in g or "y.acc.rf.o" in g for g in guards)


def test_depthwise_windows_are_unrolled_over_their_columns() -> None:
    program = operator("depthwise_conv2d(h=9,w=9,c=16,k=3,pad=1)")
    check(program, reach(program, starts_with(Inline("p")), y_v_reg=4, y_lanes=8, y_s_unroll=3, y_r_unroll=3))


@pytest.mark.parametrize(
    "text", ["conv2d_transpose(h=4,w=4,ci=16,co=3)", "conv2d(h=5,w=5,ci=24,co=2,k=3,pad=1)"]
)
def test_few_channels_put_the_lanes_along_the_reduction(text: str, golden: Golden) -> None:
    program = operator(text)
    sketches = derive(program, AVX2).sketches
    assert sketches and all(any(isinstance(x, RFactor) for x in s.steps) for s in sketches)
    schedule = reach(program, starts_with(Inline("p")), y_v_reg=2, y_o_reg=2)
    assert any(isinstance(s, Pack) and s.tensor == "w" for s in schedule.steps)
    nest = check(program, schedule)
    if text.startswith("conv2d("):
        golden("dot_products", nest)


def test_matrix_times_vector_takes_several_rows_at_once() -> None:
    program = operator("gemv(40,64)")
    check(program, reach(program, lambda s: "dots" in s.name, y_i_reg=8, y_k_unroll=2))


def test_chains_of_products_are_computed_slice_by_slice() -> None:
    """Attention head by head: nothing as large as the scores of all exists, operands are packed for one."""
    program = operator("attention(h=3,m=16,d=8)")
    whole = [s for s in derive(program, AVX2).sketches if "sliced whole" in s.name]
    assert whole
    for sketch in whole[::5]:
        schedule = sketch.decode([0] * len(sketch.knobs))
        nest = lower(program, schedule)
        assert [b.name for b in nest.buffers if b.role == "temp"] == []
        assert all(s.at == "o.h" for s in schedule.steps if isinstance(s, Pack))
        check(program, schedule)


def test_images_with_channels_first_put_the_lanes_along_the_channels(golden: Golden) -> None:
    """Vectors along padded columns are cut short; along channels, the tile's buffer has these last."""
    program = operator("conv2d_nchw(ci=4,h=7,w=7,co=16,k=3,pad=1)")

    def along_channels(s: Sketch) -> bool:
        return s.steps[0] == Inline("p") and any(isinstance(x, Pack) and x.tensor == "w" for x in s.steps)

    schedule = reach(program, along_channels, y_v_reg=4, y_lanes=8, y_vectors=2)
    text = check(program, schedule)
    assert "y.acc[0, 0, y.v.2, 8*y.o.2 + y.o.3]" in text
    golden("channels_first", text)


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["16 registers of 8", "32 registers of 16"])
def test_tiles_that_blocks_are_summed_up_over_stay_small(target: Target) -> None:
    """Middle and register tiles of both axes multiply: with wide vectors, to megabytes of stack."""
    program = canonical(operator("matmul(8192, 8192, 8192)"))
    blocked = [s for s in derive(program, target).sketches if any(isinstance(x, RFactor) for x in s.steps)]
    assert blocked
    for sketch in blocked[::2]:
        for candidate in sample(sketch, 24, np.random.default_rng(0)):
            lower(program, sketch.decode(candidate))
