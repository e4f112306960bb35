"""API keys, requests that take effect once, models: on every database."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tunesmith.db import Ambiguous, IdempotencyMismatch, NotFound, Scope, Store, open_store
from tunesmith.db.access import new_secret, prefix_of, secret_digest
from tunesmith.db.requests import Answered, InFlight

START = dt.datetime(2026, 1, 1, 23, 59, tzinfo=dt.UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> dt.datetime:
        return self.now

    def tick(self, **by: float) -> None:
        self.now += dt.timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    with open_store(url, clock=clock) as store:
        yield store


def test_secrets_are_long_random_and_recognisable() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100 and len({prefix_of(s) for s in secrets}) == 100
    assert all(s.startswith("tsk_") and len(s) >= 50 for s in secrets)


def test_a_key_is_found_by_its_secret_only(store: Store) -> None:
    key, secret = store.keys.create("ci", [Scope.SUBMIT, Scope.READ])
    assert store.keys.find(secret) == key
    assert key.scopes == {Scope.READ, Scope.SUBMIT} and secret.startswith(key.prefix)
    for wrong in (secret[:-1], secret + "x", key.prefix, key.id, secret_digest(secret), "", "\ud800\0"):
        assert store.keys.find(wrong) is None
    assert store.keys.list().items == (key,)


def test_the_secret_is_nowhere_in_the_database(store: Store) -> None:
    _, secret = store.keys.create("ci", [Scope.READ])
    rows = store._database.read(lambda s: s.fetch("SELECT * FROM api_key", {}))
    assert secret not in repr([dict(row) for row in rows])


def test_expiry_and_revocation(store: Store, clock: Clock) -> None:
    key, _ = store.keys.create("ci", [Scope.READ], expires_at=clock.now + dt.timedelta(days=1))
    assert key.usable(clock.now) and store.keys.any_usable()
    clock.tick(days=1)
    assert not key.usable(clock.now) and not store.keys.any_usable()
    other, _ = store.keys.create("laptop", [Scope.ADMIN])
    assert store.keys.any_usable()
    gone = store.keys.revoke(other.prefix)
    assert gone.revoked_at == clock.now and not gone.usable(clock.now)
    clock.tick(days=1)
    assert store.keys.revoke(other.id) == gone
    assert not store.keys.any_usable()


def test_keys_are_named_by_id_prefix_or_a_name_of_their_own(store: Store) -> None:
    first, _ = store.keys.create("ci", [Scope.READ])
    second, _ = store.keys.create("ci", [Scope.READ])
    with pytest.raises(Ambiguous):
        store.keys.revoke("ci")
    store.keys.revoke(first.id)
    assert store.keys.revoke("ci").id == second.id
    with pytest.raises(NotFound):
        store.keys.revoke("nobody")


def test_use_is_noted_once_a_minute(store: Store, clock: Clock) -> None:
    key, secret = store.keys.create("ci", [Scope.READ])
    for _ in range(4):
        found = store.keys.find(secret)
        assert found is not None
        store.keys.touch(found)
        clock.tick(seconds=25)
    used = store.keys.get(key.id).last_used_at
    assert used == START + dt.timedelta(seconds=75)


def test_a_request_takes_effect_once(store: Store, clock: Clock) -> None:
    requests = store.requests
    assert requests.begin("", "k", "a") is None
    with pytest.raises(InFlight):
        requests.begin("", "k", "a")
    requests.finish("", "k", Answered(201, {"id": 1}))
    assert requests.begin("", "k", "a") == Answered(201, {"id": 1})
    with pytest.raises(IdempotencyMismatch):
        requests.begin("", "k", "b")
    assert requests.begin("other", "k", "b") is None
    requests.forget("other", "k")
    assert requests.begin("other", "k", "c") is None
    clock.tick(minutes=3)
    assert requests.begin("other", "k", "c") is None, "its server died"
    clock.tick(hours=25)
    assert requests.begin("", "k", "b") is None


def test_usage_is_counted_by_day(store: Store, clock: Clock) -> None:
    store.requests.spend("me", records=2, size_bytes=100)
    store.requests.spend("me", records=1, size_bytes=1 << 40)
    assert (store.requests.usage("me").records, store.requests.usage("me").size_bytes) == (3, 100 + (1 << 40))
    assert store.requests.usage("you").records == 0
    clock.tick(minutes=1)
    assert store.requests.usage("me").records == 0


def test_models_are_known_by_their_bytes(store: Store, clock: Clock) -> None:
    about = {"feature_schema": 3, "n_records": 10, "about": {"date": "2026"}}
    model, new = store.models.put("mine", b"bytes", **about)  # type: ignore[arg-type]
    again, known = store.models.put("yours", b"bytes", **about)  # type: ignore[arg-type]
    assert (new, known, again) == (True, False, model)
    assert store.models.data(model.id) == b"bytes" and model.size_bytes == 5
    assert store.models.get(model.id) == model
    clock.tick(seconds=1)
    newer, _ = store.models.put("mine", b"other", **about)  # type: ignore[arg-type]
    page = store.models.list(limit=1)
    rest = store.models.list(limit=1, cursor=page.next_cursor)
    assert [*page.items, *rest.items] == [newer, model] and rest.next_cursor is None
    with pytest.raises(NotFound):
        store.models.get("x")


def test_targets_and_workloads_one_by_one(store: Store, clock: Clock) -> None:
    import db_samples as samples

    targets = [replace(samples.TARGET, model=f"cpu {n}") for n in range(3)]
    for target in targets:
        store.add_target(target)
        clock.tick(seconds=1)
    page = store.target_page(limit=2)
    rest = store.target_page(limit=2, cursor=page.next_cursor)
    assert [*page.items, *rest.items] == targets[::-1] and rest.next_cursor is None
    record = samples.record(1e-3)
    store.add(record)
    assert store.workload_summary(samples.WORKLOAD.hash).best_record_id == record.id
    with pytest.raises(NotFound):
        store.workload_summary("x")
    known = store.known_records([record.id, "x"])
    assert known == {record.id: (samples.WORKLOAD.hash, record.schedule_hash)}
