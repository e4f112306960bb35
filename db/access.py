"""Who may do what: API keys as values, and their secrets. Standard library only."""

import datetime as dt
import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["ApiKey", "Scope", "new_secret", "prefix_of", "secret_digest"]

_MARK = "tsk_"
_PREFIX_CHARS = len(_MARK) + 8


class Scope(StrEnum):
    """What a key is for. ``ADMIN`` includes the others, sees everybody's jobs and makes keys."""

    READ = "read"
    SUBMIT = "submit"
    MEASURE = "measure"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret, of which only a digest is kept. ``prefix`` is how the secret begins: enough
    to recognise it by, far too little to guess it from."""

    id: str
    name: str
    prefix: str
    scopes: frozenset[Scope]
    created_at: dt.datetime
    expires_at: dt.datetime | None
    last_used_at: dt.datetime | None
    revoked_at: dt.datetime | None

    def usable(self, now: dt.datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def new_secret() -> str:
    """256 random bits, of which the first 48 are its prefix."""
    return _MARK + secrets.token_urlsafe(38)


def prefix_of(secret: str) -> str:
    return secret[:_PREFIX_CHARS]


def secret_digest(secret: str) -> str:
    """SHA-256. A slow hash is for passwords; nobody guesses 256 random bits, however fast the hash."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
