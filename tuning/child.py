"""Child processes with limits, for work on what strangers sent: a module of this package that reads standard
input and arguments, and writes what it made of them. It may die of it; its parent does not.
"""

import os
import resource
import subprocess
import sys

from tunesmith.measure.confine import limit
from tunesmith.measure.environment import worker_environment

__all__ = ["ask_child", "limit_child"]

_MEMORY_BYTES = 8 << 30  # of address space: libraries and thread stacks reserve most of it


def ask_child(
    module: str, *words: str, patience_s: float, sent: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Runs ``python -m module PARENT words…``, whose first argument is this process's id. Raises
    ``subprocess.TimeoutExpired`` when it takes too long, and has been killed."""
    command = [sys.executable, "-P", "-m", module, str(os.getpid()), *words]
    return subprocess.run(
        command, input=sent, capture_output=True, timeout=patience_s, check=False, start_new_session=True,
        env=worker_environment(),
    )  # fmt: skip


def limit_child(cpu_s: int) -> None:
    """In the child, once its libraries are loaded: memory and processor time are bounded from here on."""
    limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    limit(resource.RLIMIT_CPU, cpu_s)
