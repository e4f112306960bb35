"""Names for the processes that hold jobs, from which others on the machine can tell that one has died."""

import functools
import os
import socket
import uuid

import psutil  # type: ignore[import-untyped]

__all__ = ["is_dead", "new_owner"]


def new_owner() -> str:
    """Unique for every worker, also of a process that reuses the number of a dead one."""
    pid = os.getpid()
    return f"{_here()}/{pid}/{_started(pid)}/{uuid.uuid4().hex[:12]}"


def is_dead(owner: str) -> bool:
    """True only for certain: a process of this machine that is gone. Others are known by their leases."""
    host, *rest = owner.split("/")
    if host != _here() or len(rest) != 3 or not rest[0].isdecimal():
        return False
    return _started(int(rest[0])) != rest[1]


@functools.cache
def _here() -> str:
    """The machine, and which processes of it can be seen: containers may all have one name."""
    try:
        return f"{socket.gethostname()}@{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # another system
        return socket.gethostname()


def _started(pid: int) -> str:
    """When the process began, in a form that compares equal; empty if it does not run."""
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return ""
