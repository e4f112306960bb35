"""Schedules that ask for too much are refused at once, before any code is made."""

import pytest

from tunesmith.ir import Program, parse
from tunesmith.schedule import (
    ROOT,
    CacheWrite,
    ComputeAt,
    IllegalStep,
    Limits,
    Pack,
    Schedule,
    Split,
    Step,
    Tail,
    Unroll,
    Vectorize,
    lower,
)


def elementwise(*shape: int) -> Program:
    return parse(f"def f(x: f32[{', '.join(map(str, shape))}]):\n    return relu(x)\n")


def chain(length: int, readers: int = 1) -> Program:
    """Stages that each read the one before, or the ``readers`` before."""
    lines = [
        f"    s{n}[i, j] = {' + '.join(f'exp(s{max(n - k, 0)}[i, j])' for k in range(1, readers + 1))}\n"
        for n in range(1, length + 1)
    ]
    return parse(f"def f(s0: f32[4, 4]):\n{''.join(lines)}    return s{length}\n")


TOO_MUCH: list[tuple[str, Program, tuple[Step, ...], str]] = [
    ("a loop of a billion unrolled", elementwise(1 << 30), (Unroll("out", "i0"),), "instructions"),
    (
        "unrolled loops in one another",
        elementwise(64, 64, 64),
        tuple(Unroll("out", f"i{n}") for n in range(3)),
        "instructions",
    ),
    (
        "an exponential many times",
        parse("def f(x: f32[512]):\n    return exp(x)\n"),
        (Unroll("out", "i0"),),
        "instructions",
    ),
    (
        "gathers by many lanes",
        parse("def f(x: f32[4096, 64]):\n    y[i, j] = x[j, i]\n    return y\n"),
        (Split("y", "j", (64, 64)), Unroll("y", "j.1"), Vectorize("y", "j.2")),
        "instructions",
    ),
    ("lanes without end", elementwise(4096), (Vectorize("out", "i0"),), "4096 lanes, at most 64"),
    (
        "a large buffer on the stack",
        parse("def f(x: f32[8, 300000]):\n    u = exp(x)\n    y[i, j] = u[i, j] * 2\n    return y\n"),
        (ComputeAt("u", "y", "i"),),
        "bytes on the stack",
    ),
    (
        "many buffers on the stack",
        parse(
            "def f(x: f32[4, 100000]):\n    a = exp(x)\n    b = exp(a)\n    c = exp(b)\n    d = exp(c)\n"
            "    y[i, j] = d[i, j] * 2\n    return y\n"
        ),
        tuple(ComputeAt(n, "y", "i") for n in "dcba"),
        "bytes on the stack",
    ),
    (
        "an operand packed many times over",
        parse("def f(a: f32[4096, 512], x: f32[512]):\n    y[i] = sum(a[i, k] * x[k], k)\n    return y\n"),
        (Split("y", "i", (2,)), Pack("y", "x", ("y.i.0", "y.i.1", "y.k"), ROOT)),
        "to pack 2048 into",
    ),
    (
        "deep nests",
        chain(24),
        tuple(ComputeAt(f"s{n}", f"s{n + 1}", "j") for n in range(23, 0, -1)),
        "inside one another",
    ),
    (
        "many stages in one place",
        chain(200, 3),
        tuple(ComputeAt(f"s{n}", "s200", "i") for n in range(199, 0, -1)),
        "inside one another",
    ),
]


@pytest.mark.parametrize(
    ("program", "steps", "reason"), [c[1:] for c in TOO_MUCH], ids=[c[0] for c in TOO_MUCH]
)
def test_too_much_is_illegal(program: Program, steps: tuple[Step, ...], reason: str) -> None:
    with pytest.raises(IllegalStep, match=reason):
        lower(program, Schedule(steps))


def test_factors_beyond_all_extents_are_as_good_as_the_extent() -> None:
    steps = (Split("out", "i0", (1 << 61, 1 << 61)), Split("out", "i1", (1 << 62,), Tail.MASK))
    assert "in 5:" in str(lower(elementwise(3, 5), Schedule(steps)))


def test_what_a_program_needs_in_any_case_is_not_counted_against_a_schedule() -> None:
    """Without steps, and with one vectorized loop a stage, every program is legal."""
    lower(chain(300, 8), Schedule())
    terms = " + ".join(f"where(i >= {k}, x[i - {k}, j], 0)" for k in range(1, 40))
    guards = parse(f"def f(x: f32[64, 8]):\n    y[i, j] = x[i, j] + {terms}\n    return y\n")
    lower(guards, Schedule((Split("y", "j", (3,)), Vectorize("y", "j.1"))))


def test_limits_can_be_given() -> None:
    program = parse("def f(x: f32[8, 8]):\n    y[i] = sum(x[i, k], k)\n    return y\n")
    schedule = Schedule((CacheWrite("y"), ComputeAt("y.acc", "y", "i")))
    lower(program, schedule, Limits(stack_bytes=4))
    with pytest.raises(IllegalStep, match="4 bytes on the stack, at most 3"):
        lower(program, schedule, Limits(stack_bytes=3))
