"""Sketches: rows of knob indices and the schedules they stand for."""

import itertools

from tunesmith.schedule import (
    TAILS,
    Hole,
    Knob,
    Schedule,
    Sketch,
    Split,
    Tail,
    Unroll,
    Vectorize,
)

SKETCH = Sketch(
    "tiles",
    (
        Split("y", "i", (Hole("mid"), Hole("reg")), Hole("i.tail")),
        Split("y", "j", (Hole("reg"), 8), Tail.MASK),
        Unroll("y", "i.2"),
        Vectorize("y", "j.2"),
    ),
    (Knob("mid", (1, 2, 8)), Knob("reg", (1, 4)), Knob("i.tail", (0, 2)), Knob("unused", (3, 5))),
)


def rows() -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(len(k.values)) for k in SKETCH.knobs)))


def test_size_counts_all_rows() -> None:
    assert SKETCH.size == len(rows())


def test_decoding_fills_every_hole() -> None:
    schedule = SKETCH.decode((2, 1, 1, 0))
    assert schedule.steps[0] == Split("y", "i", (8, 4), TAILS[2])
    assert schedule.steps[1] == Split("y", "j", (4, 8), Tail.MASK)
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_encoding_finds_the_row_again() -> None:
    for row in rows():
        again = SKETCH.encode(SKETCH.decode(row))
        assert again is not None
        assert again[:3] == row[:3] and SKETCH.decode(again) == SKETCH.decode(row)


def test_a_schedule_of_another_structure_has_no_row() -> None:
    steps = SKETCH.decode((0, 0, 0, 0)).steps
    assert SKETCH.encode(Schedule(steps[:-1])) is None
    assert SKETCH.encode(Schedule((*steps[:-1], Unroll("y", "j.2")))) is None
    assert SKETCH.encode(Schedule((*steps[:-1], Vectorize("z", "j.2")))) is None


def test_a_value_outside_of_the_domain_has_no_row() -> None:
    others = SKETCH.decode((0, 0, 0, 0)).steps[1:]
    assert SKETCH.encode(Schedule((Split("y", "i", (3, 1), Tail.PEEL), *others))) is None
    assert SKETCH.encode(Schedule((Split("y", "i", (1, 1), Tail.OVERLAP), *others))) is None


def test_one_knob_has_one_value() -> None:
    """``reg`` fills two holes: they must agree."""
    steps = SKETCH.decode((0, 0, 0, 0)).steps
    assert SKETCH.encode(Schedule((steps[0], Split("y", "j", (4, 8), Tail.MASK), *steps[2:]))) is None
