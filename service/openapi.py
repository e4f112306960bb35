"""The OpenAPI document: what FastAPI derives, and what it does not know of."""

from typing import Any

from fastapi import FastAPI

from tunesmith.service.auth import needed_scope
from tunesmith.service.forms import RecordUpload

__all__ = ["install"]

_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "As `tunesmith keys create` makes it. On a loopback address none is needed by default.",
}
_REFERENCE = "#/components/schemas/{model}"


def install(app: FastAPI) -> None:
    """Has the application give the whole document."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(build())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> None:
    components = document["components"]
    components["securitySchemes"] = {"key": _BEARER}
    schema = RecordUpload.model_json_schema(ref_template=_REFERENCE)
    components["schemas"] |= {**schema.pop("$defs"), "RecordUpload": schema, **components["schemas"]}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _problems(operation)
            scope = needed_scope(method.upper(), path)
            operation["security"] = [] if scope is None else [{"key": [scope.value]}]


def _problems(operation: dict[str, Any]) -> None:
    """FastAPI documents every model as ``application/json``; ours are ``application/problem+json``."""
    for status in ("4XX", "5XX"):
        content = operation["responses"][status]["content"]
        content["application/problem+json"] = content.pop("application/json")
