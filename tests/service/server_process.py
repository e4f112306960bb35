"""Server processes with the made-up tuner, for tests that kill and starve them."""

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

__all__ = ["server"]

_SCRIPT = str(Path(__file__).with_name("serve_fake.py"))
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@contextlib.contextmanager
def server(
    url: str, *options: str, trial_s: float = 0.02, through: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A server on a free port, started ``through`` another program if one is given; what it logs is read,
    so that it never waits for a reader."""
    command = [*through, sys.executable, _SCRIPT, url, "0", str(trial_s), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        stderr = process.stderr
        assert stderr
        try:
            lines = iter(stderr.readline, "")
            found = next(m for m in map(_ADDRESS.search, lines) if m)
            reader = threading.Thread(target=lambda: [None for _ in lines], daemon=True)
            reader.start()
            with httpx.Client(base_url=found[0], timeout=30) as http:
                yield process, http
        finally:
            process.kill()
            process.wait()
            reader.join()
