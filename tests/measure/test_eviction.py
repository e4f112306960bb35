"""Caches that are empty when they have to be."""

import time

import numpy as np
import pytest

from tunesmith.codegen.llvm import host
from tunesmith.measure.eviction import Evictor


@pytest.fixture(scope="module")
def evict() -> Evictor:
    return Evictor(*host())


def test_what_was_evicted_comes_from_memory(evict: Evictor) -> None:
    data = np.ones(96 << 10, np.float32)  # in the second cache of any machine
    lines = data[::16]  # little to compute, so that the time is that of the memory

    def read_s() -> float:
        began = time.perf_counter()
        lines.sum()
        return time.perf_counter() - began

    warm, cold = [], []
    for _ in range(30):
        read_s()
        warm.append(read_s())
        evict([data])
        cold.append(read_s())
    assert min(cold) > 1.5 * min(warm), (min(cold), min(warm))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_nothing_is_changed_by_it(evict: Evictor, size: int) -> None:
    data = np.arange(size + 2, dtype=np.float32)
    evict([data[1:-1], np.empty(0, np.float32)])
    assert (data == np.arange(size + 2)).all()
