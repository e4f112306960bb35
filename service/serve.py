"""Running the service with uvicorn."""

import contextlib
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from tunesmith.db import open_store
from tunesmith.ir import TunesmithError
from tunesmith.service.app import create_app
from tunesmith.service.settings import LOOPBACK, Settings
from tunesmith.service.tools import Tools, default_tools

__all__ = ["serve"]

log = logging.getLogger(__name__)

_NO_KEY = (
    "keys are required here, and the database has none that is usable. Make one first, for the same database:"
    " tunesmith keys create NAME --scope admin"
)


def serve(
    host: str,
    port: int,
    url: str | None,
    *,
    tools: Tools | None = None,
    require_key: bool = False,
    on_listen: Callable[[str], None] = lambda _: None,
) -> None:
    """Serves until SIGTERM or Ctrl-C; then the running job is stopped and left queued for the next start.

    ``url`` is the database's, None for the user's own. Other addresses than loopback ones always
    ``require_key``. Raises ``TunesmithError`` before anything runs when the database cannot be used, has no
    key although one is required, or the address is taken. A second Ctrl-C does not wait for the job.
    ``on_listen`` is told the URL as soon as requests are accepted.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s:     %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    require_key = require_key or not _is_loopback(host)
    with open_store(url) as store:
        if require_key and not store.keys.any_usable():
            raise TunesmithError(_NO_KEY)
    settings = Settings(
        url=url,
        tools=tools or default_tools(),
        hosts=_names(host),
        any_address=not _is_loopback(host),
        require_key=require_key,
    )
    with _listen(host, port) as listener:
        here = f"http://{_in_url(host)}:{listener.getsockname()[1]}"
        log.info("serving on %s, Ctrl-C to stop", here)
        on_listen(here)
        with contextlib.suppress(KeyboardInterrupt):
            _Server(create_app(settings)).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, app: FastAPI) -> None:
        # Its own logging would write a line a request to standard output, which may be a pipe that is full.
        config = uvicorn.Config(
            app, server_header=False, timeout_graceful_shutdown=5, log_config=None, access_log=False
        )
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            log.warning("not waiting for the running job; the next start continues it")
            os._exit(130)
        super().handle_exit(sig, frame)
        context = getattr(self._app.state, "context", None)
        if context is not None:  # streams would keep their connections open
            context.events.close()


def _listen(host: str, port: int) -> socket.socket:
    """Before the worker starts: a server that cannot be reached must not take jobs from one that can."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise TunesmithError(
            f"cannot listen on {host}:{port}: {reason}. Choose another host or port."
        ) from fault


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


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
