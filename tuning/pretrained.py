"""Which pretrained model ranks: TUNESMITH_MODEL, a file or ``none``; else that of this version."""

import logging
import os
from functools import lru_cache
from pathlib import Path

from tunesmith.costmodel import Found, find_model

__all__ = ["pretrained"]

_log = logging.getLogger(__name__)


def pretrained() -> Found:
    """Reads a file once; why none is used is in the answer, and in the log if something is wrong."""
    return _find(os.environ.get("TUNESMITH_MODEL") or None)


@lru_cache(maxsize=8)
def _find(name: str | None) -> Found:
    if name == "none":
        return Found(None, "TUNESMITH_MODEL=none: the analytic prior ranks alone")
    found = find_model(None if name is None else Path(name))
    _log.log(logging.INFO if found.expected else logging.WARNING, "cost model: %s", found.reason)
    return found
