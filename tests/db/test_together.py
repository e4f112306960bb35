"""Threads that write together: everybody gets his own result or his own fault, and nobody waits for ever."""

import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

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


def test_who_is_interrupted_while_another_writes_for_him_takes_nobody_with_him() -> None:
    begun, go_on, left = threading.Event(), threading.Event(), threading.Event()

    def write(items: Sequence[int]) -> list[int]:
        begun.set()
        go_on.wait(10)
        if 1 in items:
            last = pool.submit(together, 3)
            signal.pthread_kill(main, signal.SIGINT)
            left.wait(10)
            until_waiting(3)
            lasts.append(last)
        return list(items)

    def until_waiting(n: int) -> None:
        for _ in range(1000):
            if any(entry.item == n for entry in together._waiting):
                return
            time.sleep(0.005)
        raise AssertionError(n)

    together, lasts, main = Together(write), list[Future[int]](), threading.main_thread().ident
    assert main is not None
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(together, 0)
        assert begun.wait(10)
        second = pool.submit(together, 2)
        until_waiting(2)
        threading.Timer(0.1, go_on.set).start()
        with pytest.raises(KeyboardInterrupt):
            together(1)
        left.set()
        assert [future.result(timeout=20) for future in (first, second)] == [0, 2]
        assert lasts[0].result(timeout=20) == 3
