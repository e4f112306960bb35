"""API keys in the database: made, found by their secret, listed, revoked."""

import datetime as dt
import hmac
from collections.abc import Callable, Iterable

import sqlalchemy as sa

from tunesmith.db import models
from tunesmith.db.access import ApiKey, Scope, new_secret, prefix_of, secret_digest
from tunesmith.db.codec import plain_text
from tunesmith.db.engine import Database, ReadSession, Row, WriteSession
from tunesmith.db.errors import Ambiguous, NotFound
from tunesmith.db.pages import Keyset
from tunesmith.db.values import Page
from tunesmith.records import new_id

__all__ = ["Keys"]

_TOUCH_EVERY = dt.timedelta(minutes=1)
_table = models.api_key


class Keys:
    """The key table. Every method is one transaction and thread-safe."""

    def __init__(self, database: Database, clock: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._clock = clock

    def create(
        self, name: str, scopes: Iterable[Scope], *, expires_at: dt.datetime | None = None
    ) -> tuple[ApiKey, str]:
        """A new key and its secret, which is nowhere kept and cannot be shown again."""
        secret = new_secret()
        key = ApiKey(
            id=new_id(),
            name=plain_text(name),
            prefix=prefix_of(secret),
            scopes=frozenset(scopes),
            created_at=self._clock(),
            expires_at=expires_at,
            last_used_at=None,
            revoked_at=None,
        )
        row = {
            "id": key.id,
            "name": key.name,
            "prefix": key.prefix,
            "sha256": secret_digest(secret),
            "scopes": sorted(key.scopes),
            "created_at": key.created_at,
            "expires_at": key.expires_at,
        }
        self._database.write(lambda session: session.insert_new(_table, row))
        return key, secret

    def find(self, secret: str) -> ApiKey | None:
        """The key of a secret, expired and revoked ones too; None for a secret that was never given out."""
        digest = secret_digest(secret)
        query = sa.select(_table).where(_table.c.sha256 == digest)
        row = self._database.read(lambda session: session.first(query))
        if row is None or not hmac.compare_digest(row["sha256"], digest):
            return None
        return _key(row)

    def touch(self, key: ApiKey) -> None:
        """Notes that a key is in use, once a minute at most."""
        now = self._clock()
        stale = sa.or_(_table.c.last_used_at.is_(None), _table.c.last_used_at <= now - _TOUCH_EVERY)
        used = sa.update(_table).where(_table.c.id == key.id, stale).values(last_used_at=now)
        if key.last_used_at is None or key.last_used_at <= now - _TOUCH_EVERY:
            self._database.write(lambda session: session.run(used))

    def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[ApiKey]:
        """All keys, newest first."""
        keyset = Keyset(
            {"of": "api_key"}, [_table.c.created_at, _table.c.id], [dt.datetime, str], descending=True
        )

        def work(session: ReadSession) -> Page[ApiKey]:
            rows, following = keyset.page(session, sa.select(_table), limit, cursor)
            return Page(tuple(_key(row) for row in rows), following)

        return self._database.read(work)

    def get(self, key: str) -> ApiKey:
        """By id, prefix, or a name that only one usable key has. Raises ``NotFound``, ``Ambiguous``."""
        return self._database.read(lambda session: _named(session, key, self._clock()))

    def revoke(self, key: str) -> ApiKey:
        """Makes a key (named as in ``get``) unusable for good. Idempotent."""
        now = self._clock()

        def work(session: WriteSession) -> ApiKey:
            found = _named(session, key, now)
            row = sa.update(_table).where(_table.c.id == found.id, _table.c.revoked_at.is_(None))
            session.run(row.values(revoked_at=now))
            return _named(session, found.id, now)

        return self._database.write(work)

    def any_usable(self) -> bool:
        """Whether anybody can be let in by a key at all."""
        now = self._clock()
        lasting = sa.or_(_table.c.expires_at.is_(None), _table.c.expires_at > now)
        query = sa.select(_table.c.id).where(_table.c.revoked_at.is_(None), lasting).limit(1)
        return self._database.read(lambda session: session.first(query)) is not None


def _named(session: ReadSession, key: str, now: dt.datetime) -> ApiKey:
    key = plain_text(key)
    named = sa.or_(_table.c.id == key, _table.c.prefix == key, _table.c.name == key)
    found = [_key(row) for row in session.rows(sa.select(_table).where(named).order_by(_table.c.id))]
    sure = [k for k in found if key in (k.id, k.prefix)] or [k for k in found if k.usable(now)] or found
    if not sure:
        raise NotFound("key", key)
    if len(sure) > 1:
        raise Ambiguous("key", key, tuple(k.id for k in sure[:4]))
    return sure[0]


def _key(row: Row) -> ApiKey:
    values = {name: row[name] for name in ApiKey.__slots__ if name != "scopes"}
    return ApiKey(scopes=frozenset(Scope(scope) for scope in row["scopes"]), **values)
