"""Which of several tasks gets the next slice of trials: numbers in, an index out.

The gradient is that of Ansor (L. Zheng et al., OSDI 2020, section 6): by how much the end-to-end time, the
sum of weight × best seconds, is expected to fall with the next slice of a task,

    weight × (alpha × backward + (1 − alpha) × forward)

Backward is the slope of the best over the last slices. Forward is a hope: that as many slices again gain all
that is left to gain, or that the task becomes as efficient as those like it. Unlike Ansor's, it hopes for no
more than the machine allows: a task at its bound has nothing to gain, however heavy it is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

__all__ = [
    "STRATEGIES",
    "Allocation",
    "Standing",
    "Strategy",
    "by_gradient",
    "by_turns",
    "end_to_end_s",
    "expected_gain_s",
    "is_dead",
    "slice_size",
]

_LARGEST_SLICE, _SMALLEST_SLICE = 16, 4  # below, changing turns takes longer than the trials
_SLICES = 4  # a task's at least, if the trials are shared out evenly
_DEAD_AFTER = 2  # slices without any candidate that works
_UNLIKE_AFTER = 5  # slices more than all others of its group, and still much slower: it is not like them


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is to know of a task.

    ``curve``: its best seconds after each trial, infinite before one worked. ``expected_s``: what a call may
    take, as long as nothing is measured; ``bound_s``: what it takes at least. Tasks of one ``group`` are
    alike; one without is like no other. One that is ``closed`` gets nothing more.
    """

    weight: float
    expected_s: float
    curve: Sequence[float] = ()
    bound_s: float = 0.0
    flops: float = 0.0
    group: str = ""
    closed: bool = False

    @property
    def trials(self) -> int:
        return len(self.curve)

    @property
    def best_s(self) -> float:
        return self.curve[-1] if self.curve else math.inf


@dataclass(frozen=True, slots=True)
class Allocation:
    """``slice``: trials handed out at once. ``alpha``: how much the past counts, against hope. ``beta``: how
    many times slower than those like it a task may stay. ``window``: slices that the slope is taken over.
    ``epsilon``: share of slices given at random.
    """

    slice: int = _LARGEST_SLICE
    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3
    epsilon: float = 0.05


Strategy: TypeAlias = Callable[[Sequence[Standing], Allocation, np.random.Generator], int | None]
"""The task to go on with, None if all are closed."""


def slice_size(trials: int | None, tasks: int) -> int:
    """Small enough that a task whose share is even gets several, and that there is one for each task."""
    if trials is None:
        return _LARGEST_SLICE
    wanted = min(_LARGEST_SLICE, max(_SMALLEST_SLICE, trials // (_SLICES * tasks)))
    return max(1, min(wanted, trials // tasks))


def end_to_end_s(tasks: Sequence[Standing]) -> float | None:
    """Seconds of a call of everything, as far as tasks work; None if one is still to be tried."""
    known = [t for t in tasks if not (t.closed and t.best_s == math.inf)]
    total = sum(t.weight * t.best_s for t in known)
    return total if known and total < math.inf else None


def is_dead(task: Standing, allocation: Allocation) -> bool:
    """Whether its first slices are spent and nothing works."""
    return task.trials >= _DEAD_AFTER * allocation.slice and task.best_s == math.inf


def by_gradient(tasks: Sequence[Standing], allocation: Allocation, rng: np.random.Generator) -> int | None:
    """Every task gets a first slice, the largest first; then the one that promises most, now and then any."""
    open_ = [i for i, t in enumerate(tasks) if not t.closed]
    if not open_:
        return None
    first = [i for i in open_ if _is_unknown(tasks[i], allocation)]
    if first:
        return max(first, key=lambda i: tasks[i].weight * tasks[i].expected_s)
    if rng.random() < allocation.epsilon:
        return open_[int(rng.integers(len(open_)))]
    return max(open_, key=lambda i: (expected_gain_s(tasks, i, allocation), -tasks[i].trials))


def by_turns(tasks: Sequence[Standing], allocation: Allocation, rng: np.random.Generator) -> int | None:
    """The one with the fewest trials: an even share for all, to compare with."""
    open_ = [i for i, t in enumerate(tasks) if not t.closed]
    return min(open_, key=lambda i: tasks[i].trials, default=None)


STRATEGIES: dict[str, Strategy] = {"gradient": by_gradient, "round-robin": by_turns}


def _is_unknown(task: Standing, allocation: Allocation) -> bool:
    return task.trials < allocation.slice or task.best_s == math.inf


def expected_gain_s(tasks: Sequence[Standing], index: int, allocation: Allocation) -> float:
    """Seconds by which the next slice of a task that has a best is expected to shorten the whole."""
    task = tasks[index]
    past, hope = _past_gain_s(task, allocation), _hoped_gain_s(tasks, index, allocation)
    return task.weight * (allocation.alpha * past + (1 - allocation.alpha) * hope)


def _past_gain_s(task: Standing, allocation: Allocation) -> float:
    """Seconds a slice over the last of them; the first does not count, since it starts anywhere."""
    slices = min(allocation.window, task.trials // allocation.slice - 1)
    if slices < 1:
        return 0.0
    before = task.curve[-1 - slices * allocation.slice]
    return 0.0 if before == math.inf else (before - task.best_s) / slices


def _hoped_gain_s(tasks: Sequence[Standing], index: int, allocation: Allocation) -> float:
    task = tasks[index]
    left = max(0.0, task.best_s - task.bound_s)
    gain = left * min(1.0, allocation.slice / task.trials)
    rate = _best_rate(tasks, index, allocation)
    if rate > 0:
        gain = max(gain, task.best_s - allocation.beta * task.flops / rate)
    return min(gain, left)


def _best_rate(tasks: Sequence[Standing], index: int, allocation: Allocation) -> float:
    """The most operations a second in the task's group; 0 if there is none to compare with."""
    task = tasks[index]
    if not task.group or task.flops <= 0:
        return 0.0
    others = [t for i, t in enumerate(tasks) if i != index and t.group == task.group and t.best_s < math.inf]
    if not others:
        return 0.0
    rate = max(t.flops / t.best_s for t in others)
    ahead = task.trials - max(t.trials for t in others)
    slower = task.flops / task.best_s < rate / allocation.beta
    return 0.0 if slower and ahead > _UNLIKE_AFTER * allocation.slice else rate
