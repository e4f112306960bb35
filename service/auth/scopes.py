"""What a request needs permission for, by method and path: one table, closed by default."""

from dataclasses import dataclass

from tunesmith.db import Scope

__all__ = ["needed_scope"]

_ASKING = ("GET", "HEAD")
_ANY = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class _Rule:
    """For ``path`` and everything below it."""

    methods: tuple[str, ...]
    path: str
    scope: Scope | None

    def holds(self, method: str, path: str) -> bool:
        below = path.startswith((f"{self.path}/", f"{self.path}:"))
        return method in self.methods and (path == self.path or below)


_RULES = (
    _Rule(_ASKING, "/livez", None),
    _Rule(_ASKING, "/readyz", None),
    _Rule(_ANY, "/v1/keys", Scope.ADMIN),
    _Rule(_ASKING, "/v1", Scope.READ),
    _Rule(_ASKING, "/metrics", Scope.READ),
    _Rule(_ASKING, "/openapi.json", Scope.READ),
    _Rule(("POST",), "/v1/best", Scope.READ),  # a question that is too long for an address
    _Rule(_ANY, "/v1/jobs", Scope.SUBMIT),
    _Rule(("POST",), "/v1/records", Scope.MEASURE),
    _Rule(("POST",), "/v1/models", Scope.MEASURE),
)


def needed_scope(method: str, path: str) -> Scope | None:
    """The first rule that holds counts. What none was thought of for needs ``admin``."""
    return next((rule.scope for rule in _RULES if rule.holds(method, path)), Scope.ADMIN)
