"""The HTTP service: jobs, records, best schedules and artifacts; and workers without HTTP.

What brings the framework with it is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tunesmith.service.settings import Limits, Settings

if TYPE_CHECKING:
    from tunesmith.service.app import create_app
    from tunesmith.service.server import serve
    from tunesmith.service.tools import Tools, default_tools
    from tunesmith.service.worker import work

__all__ = ["Limits", "Settings", "Tools", "create_app", "default_tools", "serve", "work"]

_HOMES = {
    "Tools": "tools", "create_app": "app", "default_tools": "tools", "serve": "server", "work": "worker",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tunesmith.service.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
