"""Every sketch of every operator family: candidates at random compute what the program says.

Sizes are small, odd and prime, or 1. TUNESMITH_SEED draws others; a failure says which seed it was.
"""

import os
import zlib

import numpy as np
import pytest
from check_results import check_compiled, check_interpreted, target

from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Sketch, lower
from tunesmith.search.population import sample
from tunesmith.search.space import derive

SEED = int(os.environ.get("TUNESMITH_SEED", "0"))
MACHINES = {"16 × 32 bytes": target(1, "x86-64-v3", 32, 16), "32 × 64 bytes, 2 threads": target(2)}
MOST_INTERPRETED = 5_000  # points of a program that the interpreter is asked to walk
FAMILIES = (
    "matmul(7,19,11)",
    "matmul(13,1,17,tb=True)",
    "matmul(9,16,5,ta=True,bias=True,residual=True,act='relu',const=True)",
    "matmul(17,23,211)",
    "batch_matmul(2,5,17,7,tb=True)",
    "gemv(11,37)",
    "gemv(19,13,ta=True,const=True)",
    "dense(m=5,n=19,k=13,act='gelu',residual=True)",
    "transpose_batch_matmul(batch=2,seq=7,heads=3,dim=5)",
    "attention(h=2,m=5,d=3,kv=11)",
    "attention(h=1,m=1,d=8)",
    "conv1d(n=2,l=13,ci=3,co=11,k=3,stride=2,pad=1)",
    "conv2d(n=2,h=7,w=5,ci=3,co=11,k=3,pad=1,bias=True,residual=True,act='relu')",
    "conv2d(h=11,w=9,ci=2,co=9,k=3,stride=2,pad=2,dilation=2)",
    "conv2d(h=5,w=7,ci=13,co=8,k=1)",
    "conv2d(h=3,w=3,ci=1,co=1,k=3)",
    "conv2d_nchw(n=2,ci=3,h=5,w=7,co=5,k=3,pad=1,bias=True,act='relu')",
    "conv3d(d=2,h=3,w=3,ci=2,co=9,k=2,pad=1)",
    "group_conv2d(n=2,h=5,w=5,ci=6,co=10,groups=2,k=3,pad=1)",
    "depthwise_conv2d(n=2,h=7,w=5,c=11,k=3,stride=2,pad=1)",
    "depthwise_conv2d(h=5,w=5,c=3,k=3,factor=5)",
    "depthwise_conv2d_nchw(c=3,h=7,w=9,k=3,pad=1)",
    "conv2d_bn_relu(h=5,w=5,ci=3,co=9,k=3,stride=2,pad=1)",
    "conv2d_transpose(n=2,h=3,w=2,ci=5,co=7)",
    "conv2d_capsule(h=3,w=3,ci=2,co=5,stride=2,size=3)",
    "max_pool2d(n=2,h=7,w=7,c=11,k=3,stride=2,pad=1)",
    "avg_pool2d(h=6,w=7,c=5,k=2)",
    "max_pool2d_nchw(c=3,h=7,w=9,k=3,stride=2,pad=1)",
    "global_avg_pool(n=2,h=5,w=3,c=11)",
    "global_max_pool(h=1,w=7,c=1)",
    "global_avg_pool_nchw(n=2,c=5,h=3,w=7)",
    "softmax(5,37)",
    "softmax(1,1)",
    "layer_norm(3,41)",
    "rms_norm(7,17)",
    "mean(5,19)",
    "moments(7,23)",
    "sumsq(5,37)",
    "norm(2,7,11)",
    "norm(1,131,131)",
    "activation(7,13,'gelu_tanh',bias=True)",
    "relu_muladd(97)",
    "transpose(19,23)",
)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("text", FAMILIES)
def test_candidates_of_every_sketch(text: str, machine: str) -> None:
    program = canonical(operator(text))
    space = derive(program, MACHINES[machine])
    assert space.sketches and not space.disabled
    rng = np.random.default_rng((SEED, zlib.crc32(f"{text} {machine}".encode())))
    for sketch in space.sketches:
        _check(program, sketch, MACHINES[machine], rng)


def _check(program: Program, sketch: Sketch, machine: Target, rng: np.random.Generator) -> None:
    """One candidate; where it is refused, another one has to be legal."""
    for row in sample(sketch, 8, rng):
        schedule = sketch.decode(row)
        try:
            nest = lower(program, schedule)
        except IllegalStep:
            continue
        where = f"TUNESMITH_SEED={SEED}, sketch {sketch.name!r}, knobs {row.tolist()}: {schedule.to_json()}"
        try:
            if _points(program) <= MOST_INTERPRETED:
                check_interpreted(program, nest)
            check_compiled(program, nest, machine)
        except Exception as e:
            e.add_note(where)
            raise
        return
    raise AssertionError(f"TUNESMITH_SEED={SEED}: no candidate of sketch {sketch.name!r} is legal")


def _points(program: Program) -> int:
    return sum(int(np.prod([a.extent for a in s.all_axes], dtype=np.int64)) for s in program.stages)
