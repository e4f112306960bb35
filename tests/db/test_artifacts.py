"""Artifacts are stored once and never change."""

import hashlib

import db_samples as samples
import pytest

from tunesmith.db import NotFound, Store


def test_put_and_get(store: Store) -> None:
    record = samples.record()
    store.add(record)
    assert store.artifacts.get(record.id, "asm") is None
    data = bytes(range(256)) * 100
    stored = store.artifacts.put(record.id, "asm", data)
    assert (stored.data, stored.size_bytes) == (data, len(data))
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert store.artifacts.get(record.id, "asm") == stored
    assert store.artifacts.get(record.id, "llvm") is None


def test_the_first_one_stays(store: Store) -> None:
    record = samples.record()
    store.add(record)
    first = store.artifacts.put(record.id, "object", b"one")
    assert store.artifacts.put(record.id, "object", b"two") == first


def test_no_such_record(store: Store) -> None:
    with pytest.raises(NotFound):
        store.artifacts.put("nobody", "asm", b"")
