"""The one who sends a request."""

from dataclasses import dataclass

from tunesmith.db import Scope

__all__ = ["ANYBODY", "LOCAL", "Principal"]


@dataclass(frozen=True, slots=True)
class Principal:
    """``owner`` is what jobs are kept under: the id of a key, or empty for requests without one."""

    owner: str
    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope | None) -> bool:
        return scope is None or scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def sees(self) -> str | None:
        """Whose jobs are shown and may be changed; None is everybody's. Other people's do not exist."""
        return None if Scope.ADMIN in self.scopes else self.owner

    @property
    def has_quota(self) -> bool:
        """Who reaches a service that asks for no key owns the machine it runs on."""
        return bool(self.owner)


LOCAL = Principal("", "local", frozenset(Scope))
"""Whoever reaches a service on a loopback address that asks for no key."""

ANYBODY = Principal("", "anybody", frozenset())
"""Those who need no permission, since they only ask whether the service lives."""
