"""The parent's handle on one worker process: never blocks, and never leaves it behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tunesmith.measure import guard
from tunesmith.measure.environment import worker_environment
from tunesmith.measure.hardware import on_cpus
from tunesmith.measure.messages import Decoder, Message, encode

__all__ = ["Ending", "WorkerProcess", "WorkerSpec", "signal_name"]

_TAIL_BYTES = 4096
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How to start a worker. ``use`` names the builder function or the reference module.

    ``greeting`` is sent first; ``store`` is a file descriptor that the worker inherits. One that is not ready
    for work ``start_s`` seconds after its start is ended.
    """

    role: str
    use: str
    cpus: tuple[int, ...]
    memory_bytes: int = 0
    nice: int = 0
    environment: Mapping[str, str] | None = None
    greeting: Message | None = None
    store: int = -1
    start_s: float = 120.0

    @property
    def command(self) -> list[str]:
        options = {
            "--cpus": ",".join(map(str, self.cpus)),
            "--memory": self.memory_bytes,
            "--nice": self.nice,
            "--use": self.use,
            "--store": self.store,
        }
        # -P: the folder the user stands in must not shadow modules.
        start = [sys.executable, "-P", guard.__file__, str(os.getpid()), self.role]
        return start + [f"{name}={value}" for name, value in options.items()]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: by a signal (0: it did not), with an exit code, and its last words."""

    signal: int
    code: int
    words: str

    def __str__(self) -> str:
        what = signal_name(self.signal) if self.signal else f"exit code {self.code}"
        return f"{what}: {self.words}" if self.words else what


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class WorkerProcess:
    """One child in its own session. Messages in both directions without blocking."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.started_at = time.monotonic()
        # Its imports, which come before it can choose, are to run where it will, and not beside its parent.
        with on_cpus(spec.cpus) if spec.cpus else contextlib.nullcontext():
            self._process = subprocess.Popen(
                spec.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=worker_environment(**{"OPENBLAS_NUM_THREADS": "1", **(spec.environment or {})}),
                pass_fds=(spec.store,) if spec.store >= 0 else (),
            )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.stdin = self._process.stdin.fileno()
        self.stdout = self._process.stdout.fileno()
        self.stderr = self._process.stderr.fileno()
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self._decoder = Decoder()
        self._unsent = bytearray()
        self._tail = b""
        if spec.greeting is not None:
            self.send(spec.greeting)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def send(self, message: Message) -> None:
        self._unsent += encode(message)
        self.flush()

    def flush(self) -> None:
        """Write as much as the pipe takes. What a dead process does not take is dropped."""
        while self._unsent:
            try:
                written = os.write(self.stdin, self._unsent)
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()
                return
            del self._unsent[:written]

    def receive(self) -> tuple[list[Message], bool]:
        """Messages that have arrived, and whether they end here: the process is done, or out of its mind."""
        messages: list[Message] = []
        while True:
            try:
                data = os.read(self.stdout, _CHUNK)
            except BlockingIOError:
                return messages, False
            if not data:
                return messages, True
            try:
                messages.extend(self._decoder.feed(data))
            except ValueError as e:
                self._tail += f"\ngarbled answer: {e}".encode()
                self.kill()
                return messages, True

    def drain_errors(self) -> bool:
        """Keep the last words on standard error; false at its end."""
        while True:
            try:
                data = os.read(self.stderr, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._tail = (self._tail + data)[-_TAIL_BYTES:]

    def stop(self) -> None:
        """Have the process use no processor until ``go_on``."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process and whatever it started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def end(self, grace_s: float = 0.0) -> Ending:
        """Reap and close; kill first what has not ended by itself after ``grace_s``."""
        try:
            code = self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        self.drain_errors()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        words = self._tail.decode(errors="replace").strip()
        return Ending(max(0, -code), max(0, code), words)
