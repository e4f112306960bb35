"""Threads that write together: everybody gets his own result or his own fault, and nobody waits for ever."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tunesmith.db.together import Together


def test_many_threads_share_transactions() -> None:
    batches: list[list[int]] = []
    gate = threading.Event()

    def write(items: Sequence[int]) -> list[int]:
        gate.wait(5)
        batches.append(list(items))
        return [2 * item for item in items]

    together = Together(write)
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(together, n) for n in range(200)]
        gate.set()
        assert [future.result(timeout=20) for future in asked] == [2 * n for n in range(200)]
    assert sorted(n for batch in batches for n in batch) == list(range(200))
    assert max(map(len, batches)) > 1


def test_a_fault_is_that_of_its_item() -> None:
    def write(items: Sequence[int]) -> list[int]:
        if any(item % 7 == 3 for item in items):
            raise ValueError(items[0])
        return list(items)

    together = Together(write)

    def ask(n: int) -> object:
        try:
            return together(n)
        except ValueError as fault:
            return fault.args[0]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(100), timeout=20)) == list(range(100))


def test_who_is_interrupted_holds_nobody_up() -> None:
    """The leader's interrupt is his alone: the others lead themselves."""
    begun, go_on = threading.Event(), threading.Event()
    calls = []

    def write(items: Sequence[int]) -> list[int]:
        calls.append(list(items))
        if len(calls) == 1:
            begun.set()
            go_on.wait(10)
            raise KeyboardInterrupt
        return list(items)

    together = Together(write)
    found: list[object] = []

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            together(0)
        found.append("interrupted")

    with ThreadPoolExecutor(8) as pool:
        leader = pool.submit(first)
        assert begun.wait(10)
        others = [pool.submit(together, n) for n in range(1, 6)]
        go_on.set()
        leader.result(timeout=20)
        assert [future.result(timeout=20) for future in others] == [1, 2, 3, 4, 5]
    assert together(9) == 9
