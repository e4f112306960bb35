"""Waiting for builders and runner at once."""

import selectors

from tunesmith.measure.pool import BuildPool
from tunesmith.measure.runner import Runner

__all__ = ["wait_any"]


def wait_any(*sources: BuildPool | Runner, timeout_s: float) -> None:
    """Return when one of them may have something to poll, or after ``timeout_s``.

    Timeouts of jobs are only noticed by polling: do it once a second or so.
    """
    crews = [crew for source in sources for crew in source.crews]
    if any(crew.has_outcomes for crew in crews):
        return
    with selectors.DefaultSelector() as selector:
        for crew in crews:
            for key in crew.selector.get_map().values():
                selector.register(key.fd, key.events)
        selector.select(max(0.0, timeout_s))
