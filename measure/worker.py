"""A child process that builds or runs candidates, once it is guarded (``guard.py PARENT ROLE …``).

Its standard input and output carry messages. It dies with its parent and leaves no core file. Its role has it
confined once it is ready, before it is given any candidate.
"""

import argparse
import contextlib
import importlib
import os
import resource
from pathlib import Path

from tunesmith.measure.channel import Channel
from tunesmith.measure.confine import limit

__all__ = ["main"]


def _isolate(options: argparse.Namespace) -> None:
    limit(resource.RLIMIT_CORE, 0)
    if options.memory:
        limit(resource.RLIMIT_AS, options.memory)
    if options.nice:
        os.nice(options.nice)
    if options.cpus and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, [int(cpu) for cpu in options.cpus.split(",")])
    with contextlib.suppress(OSError):  # if memory runs out, this process goes before its parent
        Path("/proc/self/oom_score_adj").write_text("500")


def _open_channel() -> Channel:
    """Whatever else prints to standard output goes to standard error."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return Channel(source, sink)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tunesmith.measure.worker")
    parser.add_argument("role", choices=("build", "run"))
    parser.add_argument("--cpus", default="")
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--use", required=True, help="the builder function or reference module")
    parser.add_argument("--store", type=int, default=-1, help="file descriptor that keeps the reference")
    options = parser.parse_args(arguments)
    _isolate(options)
    channel = _open_channel()
    role = importlib.import_module(f"tunesmith.measure.{options.role}_role")
    role.serve(channel, options)
