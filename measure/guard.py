"""The first that a worker runs: ``python guard.py PARENT ROLE …``, a script that imports nothing of Tunesmith
before the system is told to end the process with its parent.

Then it says so, and goes on as ``tunesmith.measure.worker``, whose imports take a while. A worker that was
stopped before it is guarded would stay for ever if its parent was killed.
"""

import contextlib
import ctypes
import os
import signal
import sys

__all__ = ["GUARDED", "die_with_parent", "main"]

GUARDED = "guarded"
"""The kind of the first message of a worker."""

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Has the system kill this process when ``parent``, which started it, ends in whatever way."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before it could be watched
        sys.exit(1)


def main(arguments: list[str]) -> None:
    die_with_parent(int(arguments[0]))
    header = f'{{"kind": "{GUARDED}", "blobs": []}}'.encode()
    os.write(1, len(header).to_bytes(4, "little") + header)

    from tunesmith.measure import worker

    worker.main(arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
