"""Words to the service manager that started this process (the notification protocol of systemd)."""

import contextlib
import os
import socket

__all__ = ["READY", "STOPPING", "WATCHDOG", "WATCHDOG_EVERY_S", "notify"]

READY, STOPPING, WATCHDOG = "READY=1", "STOPPING=1", "WATCHDOG=1"
WATCHDOG_EVERY_S = 5


def notify(word: str) -> None:
    """Without a manager, nothing. One that does not listen is no reason to stop."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.connect("\0" + address[1:] if address.startswith("@") else address)
        manager.sendall(word.encode())
