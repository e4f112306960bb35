"""Tasks to learn from: the same for the same seed, of all families, within bounds."""

from itertools import islice

import pytest

from tunesmith.ir import TunesmithError
from tunesmith.tuning.tasks import FAMILIES, LEAST_S, MOST_S, chosen_families, draw_tasks, estimate_s


def test_task_i_is_the_same_however_many_are_drawn() -> None:
    first = [t.operator for t in islice(draw_tasks(3), 5)]
    assert [t.operator for t in islice(draw_tasks(3), 12)][:5] == first
    assert [t.operator for t in islice(draw_tasks(4), 5)] != first


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_programs_within_bounds(family: str) -> None:
    tasks = list(islice(draw_tasks(0, [family]), 5))
    assert {t.family for t in tasks} == {t.program.name for t in tasks} == {family}
    assert all(LEAST_S <= estimate_s(t.program) <= MOST_S for t in tasks)
    assert len({t.operator for t in tasks}) > 1


def test_families_are_chosen_by_name() -> None:
    assert chosen_families() == tuple(FAMILIES)
    assert chosen_families(["softmax", "matmul"]) == ("matmul", "softmax")
    assert set(chosen_families(without=["attention"])) == set(FAMILIES) - {"attention"}
    for only, without in ((["softmx"], []), ([], ["softmx"])):
        with pytest.raises(TunesmithError, match="no family softmx; there are matmul, dense"):
            chosen_families(only, without)
    with pytest.raises(TunesmithError, match="no family is left"):
        chosen_families(["softmax"], ["softmax"])
