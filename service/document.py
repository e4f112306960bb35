"""Writes the OpenAPI document as the repository keeps it: ``python -m tunesmith.service.document``."""

import json
import sys

from tunesmith.service.app import create_app
from tunesmith.service.settings import Limits, Settings
from tunesmith.service.tools import default_tools

__all__ = ["document_text"]


def document_text() -> str:
    """The same on every machine."""
    settings = Settings(url=None, tools=default_tools(), limits=Limits(threads=1))
    return json.dumps(create_app(settings).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document_text())
