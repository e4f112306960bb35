"""Workers go with their parent, however it goes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

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
