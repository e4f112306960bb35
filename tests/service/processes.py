"""Servers and workers with the made-up tuner, as processes of their own."""

import contextlib
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

__all__ = ["Process", "running", "server", "until"]

SCRIPT = str(Path(__file__).with_name("serve_fake.py"))
URL = re.compile(r"http://127\.0\.0\.1:\d+")


class Process:
    """``lines`` are what it has written to standard error so far."""

    def __init__(
        self, url: str, port: str, trial_s: float, through: Sequence[str] = (), **changes: Any
    ) -> None:
        """Started ``through`` another program if one is given."""
        changes = {"poll_s": 0.1, **changes}
        words = [f"{name}={value}" for name, value in changes.items()]
        self.popen = subprocess.Popen(
            [*through, sys.executable, SCRIPT, url, port, str(trial_s), *words],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._came: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.popen.pid

    def _read(self) -> None:
        assert self.popen.stderr
        for line in self.popen.stderr:
            self.lines.append(line.rstrip("\n"))
            self._came.put(line)
        self.popen.stderr.close()

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()
        self._reader.join()

    def says(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """Waits for it."""
        deadline = time.monotonic() + 30
        while True:
            line = self._came.get(timeout=max(deadline - time.monotonic(), 0.01))
            if found := re.search(pattern, line):
                return found

    def end(self, number: int, within_s: float = 15.0) -> int:
        """Sends the signal and returns the exit code."""
        self.popen.send_signal(number)
        code = self.popen.wait(within_s)
        self._reader.join()
        return code


@contextlib.contextmanager
def running(url: str, port: str = "none", trial_s: float = 0.01, **changes: Any) -> Iterator[Process]:
    """A worker, or a server on ``port``. Killed in the end."""
    process = Process(url, port, trial_s, **changes)
    try:
        yield process
    finally:
        process.kill()


@contextlib.contextmanager
def server(url: str, trial_s: float = 0.01, **changes: Any) -> Iterator[tuple[Process, httpx.Client]]:
    with (
        running(url, "0", trial_s, **changes) as process,
        httpx.Client(base_url=process.says(URL)[0], timeout=30) as http,
    ):
        yield process, http


def until(ask: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """The first answer that holds; the last word of one that never does."""
    for _ in range(1000):
        if holds(answer := ask()):
            return answer
        time.sleep(0.02)
    raise AssertionError(f"waited in vain: {answer}")
