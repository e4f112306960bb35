"""What candidates may not do, tried by code that does it: in build workers in Python, in run workers in
machine code."""

import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llvmlite.binding import initialize_native_asmparser
from stand_ins import LOOP, REPEAT, specs

from tunesmith.codegen.binary import Binary
from tunesmith.codegen.llvm import compile_ir, host
from tunesmith.measure import BuildPool, Runner, RunTask
from tunesmith.measure.messages import Message
from tunesmith.measure.process import WorkerProcess, WorkerSpec
from tunesmith.records import Protocol, Status

linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="has no filter"
)


# -- run by the worker, as a builder -----------------------------------------------------------------------


def attempt(program: str, schedule: str, target: str) -> Binary:
    """Tries what the schedule says, and reports how it went as the error of the candidate."""
    what = json.loads(schedule)["try"]
    try:
        result = ATTEMPTS[what]()
    except (OSError, ValueError) as refused:
        raise RuntimeError(f"refused: {refused}") from None
    except MemoryError:
        raise RuntimeError("refused: no memory") from None
    raise RuntimeError(f"worked: {result}")


def _fork_bomb() -> int:
    started = 0
    for _ in range(50):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        started += 1
    return started


def _network() -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _big_file() -> int:
    import tempfile

    with tempfile.TemporaryFile() as file:
        return sum(file.write(b"x" * (1 << 20)) for _ in range(64))


def _memory() -> int:
    return len(bytearray(64 << 30))


def _files() -> int:
    return len([os.open("/", os.O_RDONLY) for _ in range(2000)])


def _io_uring() -> int:
    import ctypes

    return _system_call(425, 8, ctypes.create_string_buffer(512))


def _system_call(*arguments: Any) -> int:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), f"system call {arguments[0]}")
    return 0


def _threads() -> int:
    def wait() -> None:
        threading.Event().wait(5)

    try:
        for _ in range(20_000):
            threading.Thread(target=wait, daemon=True).start()
    except RuntimeError as refused:
        raise OSError(str(refused)) from None
    return threading.active_count()


ATTEMPTS: dict[str, Callable[[], Any]] = {
    "fork bomb": _fork_bomb,
    "program": lambda: subprocess.run(["/bin/true"], check=True),
    "shell": lambda: os.posix_spawn("/bin/true", ["/bin/true"], {}),
    "network": _network,
    "pair": socket.socketpair,
    "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "threads without end": _threads,
    "another session": os.setsid,
    "another group": lambda: os.setpgid(0, os.getppid()),
    "user namespace": lambda: _system_call(272 if platform.machine() == "x86_64" else 97, 0x10000000),
    "io_uring": _io_uring,
    "big file": _big_file,
    "memory": _memory,
    "too many files": _files,
    "kill parent": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "kill all": lambda: os.kill(-1, 0),
    "rename": lambda: os.rename("/nowhere", "/nowhere else"),
    "unlink": lambda: os.unlink("/nowhere"),
    "unlimited": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40)),
    "core": lambda: resource.getrlimit(resource.RLIMIT_CORE),
    "own session": lambda: (os.getsid(0), os.getpgid(0)) == (os.getpid(), os.getpid()),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[BuildPool]:
    with BuildPool(1, Protocol(build_timeout_s=5.0), builder="test_confine:attempt") as pool:
        yield pool


@linux
@pytest.mark.parametrize("what", [name for name in ATTEMPTS if name not in ("core", "own session")])
def test_what_no_builder_needs_is_refused(pool: BuildPool, what: str) -> None:
    assert outcome(pool, what).startswith("RuntimeError: refused"), what


def test_no_core_is_dumped(pool: BuildPool) -> None:
    assert outcome(pool, "core") == "RuntimeError: worked: (0, 0)"


def test_workers_are_killed_with_all_they_start(pool: BuildPool) -> None:
    assert outcome(pool, "own session") == "RuntimeError: worked: True"


def outcome(pool: BuildPool, what: str) -> str:
    pool.submit(what, {}, {"try": what}, {})
    while not (results := pool.poll(1.0)):
        pass
    (result,) = results
    assert result.status is Status.BUILD_ERROR
    return result.error.strip().splitlines()[-1]


# -- machine code ------------------------------------------------------------------------------------------

# Right only if the system call fails with EPERM (-1).
CALLING = """
define i64 @try(i64 %n, i64 %a, i64 %b, i64 %c) noinline {{
  %r = call i64 asm sideeffect "syscall",
      "={{rax}},{{rax}},{{rdi}},{{rsi}},{{rdx}},~{{rcx}},~{{r11}},~{{memory}}"(i64 %n, i64 %a, i64 %b, i64 %c)
  ret i64 %r
}}
""" + LOOP.replace(
    "%y = load ptr, ptr %py",
    "%y = load ptr, ptr %py\n"
    "  %r = call i64 @try(i64 {call}, i64 {a}, i64 {b}, i64 0)\n"
    "  %refused = icmp eq i64 %r, -1\n"
    "  %f = select i1 %refused, float 2.0, float 3.0",
).replace("{factor}", "%f")

CALLS = {
    "fork": (57, 0, 0),
    "vfork": (58, 0, 0),
    "clone without thread": (56, 17, 0),
    "socket": (41, 2, 1),
    "execve": (59, 0, 0),
    "kill init": (62, 1, 0),
    "ptrace": (101, 0, 0),
    "getpid by another interface": (0x40000000 + 39, 0, 0),
}


@pytest.fixture(scope="module")
def runner(brisk: Protocol) -> Iterator[Runner]:
    with Runner(RunTask({"n": 64}), brisk, language="stand_ins") as runner:
        yield runner


@linux
@pytest.mark.skipif(platform.machine() != "x86_64", reason="written for x86-64")
@pytest.mark.parametrize("name", CALLS)
def test_no_kernel_calls_the_system(runner: Runner, name: str) -> None:
    call, a, b = CALLS[name]
    initialize_native_asmparser()
    text = CALLING.format(call=call, a=a, b=b, first=0, last=64, to="%y")
    runner.submit(name, Binary(compile_ir(text + REPEAT, *host()), specs(64)))
    while not (results := runner.poll(1.0)):
        pass
    assert results[0][1].status is Status.OK, results


def test_a_spinner_ends_even_if_nobody_waits_for_it() -> None:
    """The parent here is one that does nothing, as a stopped one would."""
    spec = WorkerSpec("build", "stand_ins:build", (0,))
    worker = WorkerProcess(spec)
    blobs = (b'{"n": 8}', b'{"do": "spin"}', b"{}")
    worker.send(Message("build", {"timeout_s": 0.05}, blobs))
    ending = worker.end(20.0)
    assert ending.signal == signal.SIGPROF, ending
