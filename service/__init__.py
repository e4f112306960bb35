"""The HTTP service: jobs, records, best schedules and artifacts."""

from tunesmith.service.app import create_app
from tunesmith.service.serve import serve
from tunesmith.service.settings import Limits, Settings
from tunesmith.service.tools import Tools, default_tools

__all__ = ["Limits", "Settings", "Tools", "create_app", "default_tools", "serve"]
