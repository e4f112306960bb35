"""Workers to test with: they start in half a second, so tests of one file share them."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tunesmith.records import Protocol

FOLDER = str(Path(__file__).parent)
sys.path.insert(0, FOLDER)  # for stand_ins, which workers import as well

BRISK = Protocol(samples=3, sample_s=1e-4, warmup_s=0.0, build_timeout_s=2.0, run_timeout_s=2.0)
PATIENCE_S = 30.0


@pytest.fixture(autouse=True, scope="package")
def _workers_find_stand_ins() -> Iterator[None]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (FOLDER, before)))
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="package")
def brisk() -> Protocol:
    """A protocol that wastes no time on good times."""
    return BRISK


@pytest.fixture(scope="package")
def collect() -> Callable[[Any, int], list[Any]]:
    """Poll until there are so many results."""

    def poll(source: Any, count: int) -> list[Any]:
        results: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(results) < count and time.monotonic() < deadline:
            results += source.poll(1.0)
        assert len(results) == count
        return results

    return poll


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="package")
def wait_dead() -> Callable[[tuple[int, ...]], list[int]]:
    """Those of the processes that still run after a while."""

    def wait(pids: tuple[int, ...]) -> list[int]:
        deadline = time.monotonic() + 10
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return [p for p in pids if alive(p)]

    return wait
