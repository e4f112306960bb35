"""Which methods a path has. The framework only names those of the first of its routes."""

import re

from fastapi import FastAPI

from tunesmith.service.courtesies import streams

__all__ = ["allowed_methods"]


def allowed_methods(app: FastAPI, path: str) -> tuple[str, ...]:
    """Of the route that fits best: ``/v1/jobs/{job_id}:stop`` does better than ``/v1/jobs/{job_id}``."""
    paths = app.openapi()["paths"]
    best = max((template for template in paths if _pattern(template).fullmatch(path)), key=len, default="")
    methods = {method.upper() for method in paths.get(best, ())}
    return tuple(sorted(methods | ({"HEAD"} if "GET" in methods and not streams(path) else set())))


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(map(re.escape, re.split(r"\{\w+\}", template))))
