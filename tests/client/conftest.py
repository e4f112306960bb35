"""A service in a process of its own, with the made-up tuner."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SERVE = Path(__file__).parents[1] / "service" / "serve_fake.py"


class Server:
    """``start`` it again after ``kill``: it has the same port and database."""

    def __init__(self, folder: Path, trial_s: float) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [
            sys.executable, str(SERVE), f"sqlite:///{folder}/test.db", str(self.port), str(trial_s),
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=SERVE.parent
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for tests that only ask."""
    started = Server(tmp_path_factory.mktemp("server"), 0.0)
    yield started
    started.kill()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(trial_s: float = 0.0) -> Server:
        servers.append(Server(tmp_path, trial_s))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
