"""Running the service with uvicorn."""

import contextlib
import ipaddress
import socket

import uvicorn

from tunesmith.db import open_store
from tunesmith.service.app import create_app
from tunesmith.service.settings import LOOPBACK, Settings
from tunesmith.service.tools import Tools, default_tools

__all__ = ["serve"]


def serve(host: str, port: int, url: str | None, *, tools: Tools | None = None) -> None:
    """Serves until SIGTERM or Ctrl-C; then the running job is stopped and left queued for the next start.

    ``url`` is the database's, None for the user's own. Raises ``StoreError`` before it listens when the
    database cannot be used. A second Ctrl-C ends the process without waiting for the job.
    """
    open_store(url).close()
    settings = Settings(
        url=url,
        tools=tools or default_tools(),
        hosts=_names(host),
        any_address=not _is_loopback(host),
    )
    config = uvicorn.Config(
        create_app(settings), host=host, port=port, server_header=False, timeout_graceful_shutdown=5
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run()


def _names(host: str) -> tuple[str, ...]:
    """What the service may be called by those who reach it."""
    if _is_loopback(host):
        return LOOPBACK
    return *LOOPBACK, host, socket.gethostname(), socket.getfqdn()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK
