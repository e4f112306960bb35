"""Workers go with their parent, however it goes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]
import pytest

PARENT = """
import sys, time
sys.path.insert(0, {folder!r})
from stand_ins import HANG, binary, other
from tunesmith.measure import BuildPool, Runner, RunTask
from tunesmith.records import Protocol

pool = BuildPool(1, Protocol(), builder="stand_ins:build")
runner = Runner(RunTask({{"n": 100}}), Protocol(samples=2), language="stand_ins")
pool.submit(0, {{"n": 100}}, {{"do": "hang"}}, {{}})
runner.submit(0, binary(100))
while not runner.poll(1.0):
    pass
runner.submit(1, other(100, HANG))
print(*pool.crew.pids, *runner.crew.pids, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["killed", "forgot to close", "unhandled error"])
def test_no_orphans(end: str, wait_dead: Callable[..., list[int]]) -> None:
    ends = {"killed": "time.sleep(60)", "forgot to close": "", "unhandled error": "raise SystemExit(3)"}
    text = PARENT.format(folder=os.path.dirname(__file__), end=ends[end])
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = tuple(int(word) for word in parent.stdout.readline().split())
        assert len(pids) == 2
        if end == "killed":
            os.kill(parent.pid, signal.SIGKILL)
        parent.wait(30)
    assert wait_dead(pids) == []


HOLDING = """
import sys, time
sys.path.insert(0, {folder!r})
from tunesmith.measure import BuildPool
from tunesmith.records import Protocol

pool = BuildPool(1, Protocol(), shared=(0,), builder="stand_ins:build")
pool.pause()
print(*(pid for crew in pool.crews for pid in crew.pids), flush=True)
while True:
    {act}
"""


@pytest.mark.parametrize("act", ["time.sleep(1)", "pool.poll(1)"], ids=["at once", "stopped"])
def test_no_orphans_of_one_killed_while_it_holds_a_worker_that_only_starts(
    act: str, wait_dead: Callable[..., list[int]]
) -> None:
    """Stopped before the system was told to end it with its parent, it would never hear of the end."""
    text = HOLDING.format(folder=os.path.dirname(__file__), act=act)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = tuple(int(word) for word in parent.stdout.readline().split())
        if "poll" in act:
            assert is_stopped(pids[1])
        parent.kill()
    assert wait_dead(pids) == []


def is_stopped(pid: int) -> bool:
    """Soon, at least."""
    deadline = time.monotonic() + 30
    while (state := psutil.Process(pid).status()) != psutil.STATUS_STOPPED and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(state == psutil.STATUS_STOPPED)
