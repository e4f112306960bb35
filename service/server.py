"""Running the service with uvicorn."""

import contextlib
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import NoReturn

import uvicorn
from fastapi import FastAPI

from tunesmith.db import open_store
from tunesmith.ir import TunesmithError
from tunesmith.service import logs
from tunesmith.service.app import create_app
from tunesmith.service.notify import READY, STOPPING, WATCHDOG, WATCHDOG_EVERY_S, notify
from tunesmith.service.settings import LOOPBACK, Settings

__all__ = ["listen", "serve"]

log = logging.getLogger(__name__)

_ANSWERS_S = 5  # for what is being answered when the end comes
_TOO_LATE_S = 30.0  # beyond all that may take its time

_NO_KEY = (
    "keys are required here, and the database has none that is usable. Make one first, for the same database:"
    " tunesmith keys create NAME --scope admin --db '{url}'"
)


def serve(
    settings: Settings,
    host: str = "127.0.0.1",
    port: int = 8700,
    *,
    on_listen: Callable[[str], None] = lambda _: None,
) -> None:
    """Serves until SIGTERM or Ctrl-C; then the running job is stopped and left queued for the next start.

    Other addresses than loopback ones always require a key. Raises ``TunesmithError`` before anything runs
    when the database cannot be used, has no key although one is required, or the address is taken. A second
    Ctrl-C does not wait for the job. ``on_listen`` is told the URL as soon as requests are accepted.
    """
    logs.configure(settings.log_level, settings.log_format)
    is_open = not _is_loopback(host)
    settings = replace(
        settings,
        hosts=tuple(dict.fromkeys((*_names(host), *settings.hosts))),
        any_address=settings.any_address or is_open,
        require_key=settings.require_key or is_open,
    )
    with open_store(settings.url) as store:
        if settings.require_key and not store.keys.any_usable():
            raise TunesmithError(_NO_KEY.format(url=store.url))
    with listen(host, port) as listener, _no_signal_twice():
        here = f"http://{_in_url(host)}:{listener.getsockname()[1]}"
        log.info("serving on %s, Ctrl-C to stop", here)
        on_listen(here)
        _Server(create_app(settings), settings).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, app: FastAPI, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,  # the application's own has the ids
                server_header=False,
                timeout_graceful_shutdown=_ANSWERS_S,
                callback_notify=_still_here,
                timeout_notify=WATCHDOG_EVERY_S,
            )
        )
        self._app = app
        self._longest_s = _ANSWERS_S + settings.stop_s + _TOO_LATE_S

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            notify(READY)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            log.warning("not waiting for the running job; the next start continues it")
            os._exit(130)
        super().handle_exit(sig, frame)
        notify(STOPPING)
        late = threading.Timer(self._longest_s, _give_up)
        late.daemon = True
        late.start()
        context = getattr(self._app.state, "context", None)
        if context is not None:  # streams would keep their connections open
            context.events.close()


async def _still_here() -> None:
    notify(WATCHDOG)


def _give_up() -> NoReturn:
    log.error("something hangs, such as a question to the database; the next start continues the job")
    os._exit(1)


@contextlib.contextmanager
def _no_signal_twice() -> Iterator[None]:
    """uvicorn stops in good order, then raises the signal again for whoever it concerned: nobody."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with contextlib.suppress(_Left):
            yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Left(BaseException):
    """Not to be mistaken for a fault on its way."""


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Left


def listen(host: str, port: int) -> socket.socket:
    """Before the worker starts: a server that cannot be reached must not take jobs from one that can."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise TunesmithError(
            f"cannot listen on {host}:{port}: {reason}. Choose another host or port."
        ) from fault
    # Connections inherit it. By itself asyncio sets it only where a socket names its protocol, and without it
    # the second part of an answer waits 40 ms for the client's word that the first has come.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


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
