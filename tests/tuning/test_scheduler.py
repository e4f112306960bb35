"""Who gets the next trials, from hand-made curves and from simulated ones."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tunesmith.tuning.scheduler import (
    STRATEGIES,
    Allocation,
    Standing,
    Strategy,
    by_gradient,
    by_turns,
    end_to_end_s,
    expected_gain_s,
    is_dead,
    slice_size,
)

SURE = Allocation(slice=4, epsilon=0.0)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def task(*bests: float, weight: float = 1.0, **fields: object) -> Standing:
    """One whose best is each of these for the four trials of a slice."""
    curve = tuple(b for b in bests for _ in range(SURE.slice))
    return Standing(weight, 1.0, curve, **fields)  # type: ignore[arg-type]


def chosen(*tasks: Standing, allocation: Allocation = SURE) -> int | None:
    return by_gradient(tasks, allocation, rng())


def test_each_task_gets_a_first_slice_the_largest_first() -> None:
    fresh = [Standing(1.0, 3e-3), Standing(10.0, 1e-3), Standing(2.0, 1e-3)]
    assert chosen(*fresh) == 1
    assert chosen(fresh[0], task(5e-4, weight=10.0), fresh[2]) == 0
    assert chosen(replace(task(1e-3), curve=(1e-3,) * 3), task(9.0, weight=1e6)) == 0, "three of four trials"


def test_the_heavier_of_two_like_curves_goes_on() -> None:
    assert chosen(task(4e-3, 2e-3), task(4e-3, 2e-3, weight=3.0)) == 1
    assert chosen(task(8e-3, 4e-3), task(4e-3, 2e-3)) == 0, "or the slower"


def test_what_fell_lately_goes_on() -> None:
    falling, flat = task(5e-3, 4e-3, 3e-3, 2e-3), task(5e-3, 2e-3, 2e-3, 2e-3, 2e-3)
    assert chosen(flat, falling) == 1
    only_past = Allocation(slice=4, alpha=1.0)
    assert expected_gain_s([falling], 0, only_past) == pytest.approx(1e-3)
    assert expected_gain_s([flat], 0, only_past) == 0
    assert expected_gain_s([flat], 0, replace(only_past, window=4)) == pytest.approx(3e-3 / 4)


def test_the_first_slice_is_no_slope_and_failures_neither() -> None:
    only_past = Allocation(slice=4, alpha=1.0)
    assert expected_gain_s([task(1e-3)], 0, only_past) == 0
    assert expected_gain_s([replace(task(1e-3), curve=(math.inf,) * 5 + (1e-3,) * 3)], 0, only_past) == 0


def test_a_task_at_its_bound_stops_getting_trials() -> None:
    heavy = task(2e-3, 1.01e-3, 1.0e-3, 1.0e-3, 1.0e-3, weight=50.0, bound_s=0.999e-3)
    light = task(2e-3, 1.5e-3, 1.4e-3, 1.3e-3, 1.3e-3, bound_s=0.5e-3)
    assert chosen(heavy, light) == 1
    assert chosen(replace(heavy, bound_s=0.0), light) == 0, "it is the bound that tells"
    faster = task(1e-3, 1e-3, bound_s=1.1e-3)
    assert expected_gain_s([faster], 0, SURE) == 0, "the machine was better than its measured peak"


def test_hope_shrinks_with_every_slice() -> None:
    hope = Allocation(slice=4, alpha=0.0)
    gains = [expected_gain_s([task(*[1e-3] * slices)], 0, hope) for slices in (1, 2, 4, 8)]
    assert gains == pytest.approx([1e-3, 5e-4, 2.5e-4, 1.25e-4])


def test_no_task_starves_beside_a_heavy_one() -> None:
    """The heavy one finds nothing more, and is far from its bound: hope in it fades."""
    heavy, light = task(1e-3, weight=20.0), task(1e-3)
    for _ in range(40):
        if chosen(heavy, light) == 1:
            return
        heavy = replace(heavy, curve=(*heavy.curve, *[1e-3] * SURE.slice))
    raise AssertionError("the light task got nothing more")


def test_a_task_is_to_become_as_efficient_as_those_like_it() -> None:
    good = task(1e-3, 1e-3, 1e-3, 1e-3, flops=1e6, group="g")
    poor = task(9e-3, 9e-3, 9e-3, 9e-3, flops=1e6, group="g")
    hope = Allocation(slice=4, alpha=0.0, beta=2.0)
    assert expected_gain_s([good, poor], 1, hope) == pytest.approx(9e-3 - 2e-3)
    assert expected_gain_s([good, poor], 1, replace(hope, beta=4.0)) == pytest.approx(9e-3 - 4e-3)
    assert expected_gain_s([good, poor], 0, hope) == pytest.approx(1e-3 / 4), "it has nobody to follow"
    alone = 9e-3 / 4
    assert expected_gain_s([good, replace(poor, group="other")], 1, hope) == pytest.approx(alone)
    without = [replace(good, group=""), replace(poor, group="")]
    assert expected_gain_s(without, 1, hope) == pytest.approx(alone)
    assert expected_gain_s([good, replace(poor, flops=0.0)], 1, hope) == pytest.approx(alone)
    failing = replace(good, curve=(math.inf,) * 16)
    assert expected_gain_s([failing, poor], 1, hope) == pytest.approx(alone)


def test_a_task_that_stays_behind_is_not_like_the_others() -> None:
    good, hope = task(1e-3, flops=1e6, group="g"), Allocation(slice=4, alpha=0.0)
    behind = task(*[9e-3] * 6, flops=1e6, group="g")
    assert expected_gain_s([good, behind], 1, hope) == pytest.approx(7e-3), "five slices more: not yet"
    further = task(*[9e-3] * 7, flops=1e6, group="g")
    assert expected_gain_s([good, further], 1, hope) == pytest.approx(9e-3 / 7)


def test_alpha_weighs_the_past_against_hope() -> None:
    falling = task(3e-3, 2e-3)
    gains = [expected_gain_s([falling], 0, replace(SURE, alpha=a)) for a in (0.0, 0.25, 1.0)]
    assert gains == pytest.approx([1e-3, 1e-3, 1e-3])
    flat = task(2e-3, 2e-3)
    gains = [expected_gain_s([flat], 0, replace(SURE, alpha=a)) for a in (0.0, 0.25, 1.0)]
    assert gains == pytest.approx([1e-3, 0.75e-3, 0.0])


def test_now_and_then_any_task() -> None:
    tasks = [task(1e-3, 1e-3, weight=100.0), task(1e-3, 1e-3), task(1e-3, 1e-3, closed=True)]
    draws = np.random.default_rng(1)
    picks = [by_gradient(tasks, replace(SURE, epsilon=0.2), draws) for _ in range(500)]
    assert picks.count(1) / 500 == pytest.approx(0.1, abs=0.04)
    assert 2 not in picks
    assert {chosen(*tasks) for _ in range(50)} == {0}


@pytest.mark.parametrize("strategy", STRATEGIES.values())
def test_closed_tasks_get_nothing(strategy: Strategy) -> None:
    tasks = [Standing(9.0, 1.0, closed=True), task(1e-3), task(2e-3, weight=9.0, closed=True)]
    assert strategy(tasks, SURE, rng()) == 1
    assert strategy([tasks[0]], SURE, rng()) is None
    assert strategy([], SURE, rng()) is None


def test_turns_are_even() -> None:
    tasks = [task(1e-3, 1e-3), task(1.0, weight=9.0), task(1e-3)]
    assert by_turns(tasks, SURE, rng()) == 1


def test_dead_after_two_slices_of_failures() -> None:
    assert not is_dead(Standing(1.0, 1.0, (math.inf,) * 7), SURE)
    assert is_dead(Standing(1.0, 1.0, (math.inf,) * 8), SURE)
    assert not is_dead(Standing(1.0, 1.0, (math.inf,) * 7 + (1.0,)), SURE)
    assert chosen(task(1e-3, weight=1e6), Standing(1.0, 1.0, (math.inf,) * 4)) == 1, "to prove it"


def test_the_end_to_end_time() -> None:
    tasks = [task(1e-3, weight=3.0), task(2e-3)]
    assert end_to_end_s(tasks) == pytest.approx(5e-3)
    failing = Standing(1.0, 1.0, (math.inf,) * 8)
    assert end_to_end_s([*tasks, failing]) is None
    assert end_to_end_s([*tasks, replace(failing, closed=True)]) == pytest.approx(5e-3), "without the dead"
    assert end_to_end_s([replace(failing, closed=True)]) is None


@pytest.mark.parametrize(
    ("trials", "tasks", "expected"),
    [(None, 9, 16), (640, 10, 16), (240, 10, 6), (80, 10, 4), (19, 10, 1), (9, 10, 1)],
)
def test_slices_leave_room_to_choose(trials: int | None, tasks: int, expected: int) -> None:
    assert slice_size(trials, tasks) == expected


# -- simulated: curves by a formula -------------------------------------------------------------------------


def simulated_model(seed: int, count: int = 12) -> tuple[list[Standing], list[np.ndarray]]:
    """Tasks of very different size, and the times that their trials will have.

    The best approaches a floor as fast as the task's own pace lets it; the floor is a little above the bound.
    """
    draws = np.random.default_rng(seed)
    tasks, times = [], []
    for _ in range(count):
        floor_s = 10 ** draws.uniform(-4.5, -2.0)
        pace, start = 10 ** draws.uniform(0.8, 2.2), draws.uniform(2.0, 8.0)
        level = 1 + (start - 1) * np.exp(-np.arange(600) / pace)
        times.append(floor_s * level * (1 + draws.exponential(0.3, 600)))
        weight = float(draws.integers(1, 16))
        tasks.append(Standing(weight, floor_s * start, bound_s=floor_s * draws.uniform(0.5, 0.95)))
    return tasks, times


def at_plateau(curve: Sequence[float]) -> bool:
    """As a session sees it: no gain of a percent for as long again as it took, and for 64 trials."""
    return sum(best < 1.01 * curve[-1] for best in curve) >= max(64, len(curve) // 2)


def end_to_end_curve(strategy: Strategy, seed: int, slices: int) -> tuple[list[float], list[Standing]]:
    """The end-to-end time after each slice."""
    tasks, times = simulated_model(seed)
    allocation, draws, out = Allocation(slice=8), np.random.default_rng(seed), []
    for _ in range(slices):
        index = strategy(tasks, allocation, draws)
        assert index is not None
        seen = tasks[index].trials + allocation.slice
        curve: Sequence[float] = np.minimum.accumulate(times[index][:seen]).tolist()
        tasks[index] = replace(tasks[index], curve=curve, closed=seen >= 600 or at_plateau(curve))
        out.append(end_to_end_s(tasks) or math.inf)
    return out, tasks


def test_the_gradient_needs_clearly_fewer_trials_than_turns() -> None:
    """Over models with 80 trials a task: the share of them that reaches what turns reach with all."""
    slices, shares = 120, []
    for seed in range(10):
        turns, _ = end_to_end_curve(by_turns, seed, slices)
        gradient, tasks = end_to_end_curve(by_gradient, seed, slices)
        shares.append(next(i for i, total in enumerate(gradient, 1) if total <= turns[-1]) / slices)
        assert min(t.trials for t in tasks) >= 8, "each had its first slice"
    assert np.median(shares) <= 0.65
    assert max(shares) <= 0.9
