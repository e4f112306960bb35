"""What is wrong with the database, said so that a user can mend it."""

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import db_samples as samples
import pytest
import sqlalchemy as sa

from tunesmith.db import DatabaseLocked, DatabaseUnavailable, default_url, engine, open_store, quick_best
from tunesmith.db.urls import normalize, with_password, without_password
from tunesmith.ir.errors import TunesmithError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


@pytest.fixture
def locked(path: Path) -> Iterator[None]:
    """Another process holds the write lock."""
    open_store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.close()


@pytest.mark.usefixtures("locked")
def test_locked(path: Path) -> None:
    with open_store(path, busy_timeout_s=0.05) as store:
        assert store.best("w") is None, "readers do not wait for a writer"
        with pytest.raises(DatabaseLocked, match=r"test\.db is locked by another process"):
            store.add(samples.record())


def test_threads_take_turns_before_they_ask_for_the_lock(path: Path) -> None:
    """SQLite has those that wait sleep, and forgets who came first."""
    open_store(path).close()
    database = engine.Database(normalize(path), busy_timeout_s=0.05)
    began: list[object] = []
    sa.event.listen(database.engine, "begin", began.append)
    inside, leave = threading.Event(), threading.Event()

    def hold(_: engine.WriteSession) -> None:
        inside.set()
        leave.wait(30)

    first = threading.Thread(target=lambda: database.write(hold))
    first.start()
    assert inside.wait(30)
    with pytest.raises(DatabaseLocked):
        database.write(lambda _: None)
    assert len(began) == 1
    leave.set()
    first.join()
    database.write(lambda _: None)
    assert len(began) == 2
    database.close()


def test_in_memory_is_refused() -> None:
    for url in (
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        ":memory:",
        "sqlite:///file:x?mode=memory&uri=true",
    ):
        with pytest.raises(DatabaseUnavailable, match="in-memory"):
            open_store(url)


def test_other_databases_are_refused() -> None:
    with pytest.raises(DatabaseUnavailable, match="mysql: is not a supported database"):
        open_store("mysql://localhost/x")


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"folder .*nowhere does not exist"):
        open_store(tmp_path / "nowhere" / "test.db")
    with pytest.raises(DatabaseUnavailable, match="no database at"):
        quick_best(tmp_path / "nowhere" / "test.db", "w")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="cannot be opened"):
        open_store(tmp_path)


def test_not_a_database(path: Path) -> None:
    path.write_bytes(b"all kinds of text " * 1000)
    with pytest.raises(DatabaseUnavailable, match="is not a SQLite database"):
        open_store(path)
    with pytest.raises(DatabaseUnavailable, match="is not a SQLite database"):
        quick_best(path, "w")
    assert path.read_bytes().startswith(b"all kinds"), "what is not ours stays as it was"


def test_damaged_pages(path: Path) -> None:
    with open_store(path) as store:
        store.add_all(samples.record() for _ in range(200))
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = raw.execute("PRAGMA page_size").fetchone()[0]
    raw.close()
    data = bytearray(path.read_bytes())
    kept = size * 60  # what was made first: the schema and the empty tables
    data[kept:] = b"\xff" * (len(data) - kept)
    path.write_bytes(data)
    with open_store(path) as store, pytest.raises(DatabaseUnavailable, match=r"damaged\. Restore a backup"):
        store.records(limit=1000)


def test_writing_through_a_reader(path: Path) -> None:
    open_store(path).close()
    with (
        open_store(path, read_only=True) as store,
        pytest.raises(DatabaseUnavailable, match="for reading only"),
    ):
        store.add(samples.record())


def test_postgresql_that_does_not_answer() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"does not answer|pip install 'psycopg") as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/tunesmith")
    assert "secret" not in str(caught.value)


def test_postgresql_that_accepts_but_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setitem(engine.PATIENCE, "connect_timeout", "2")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://127.0.0.1:{mute.getsockname()[1]}/x"
        with pytest.raises(DatabaseUnavailable, match="does not answer"):
            open_store(url)


def test_a_file_that_was_read_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that were opened meanwhile would stay unable to write for as long as they live."""
    open_store(path).close()
    plain = engine.connect_sqlite
    monkeypatch.setattr(engine, "connect_sqlite", partial(_for_reading, plain))
    with open_store(path) as store:
        with pytest.raises(DatabaseUnavailable, match="is not writable"):
            store.add(samples.record())
        monkeypatch.setattr(engine, "connect_sqlite", plain)
        assert store.add(samples.record())


def _for_reading(connect: Callable[..., Any], path: Path, **options: Any) -> Any:
    return connect(path, **{**options, "read_only": True})


def test_our_own_mistakes_are_not_dressed_up(path: Path) -> None:
    with open_store(path) as store, pytest.raises(Exception, match="no such table") as caught:
        store._database.read(lambda session: session.fetch("SELECT * FROM songs", {}))
    assert not isinstance(caught.value, TunesmithError)


def test_the_user_s_own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_data_path", lambda app: tmp_path / "data" / app)
    assert default_url() == f"sqlite:///{tmp_path}/data/tunesmith/tunesmith.db"
    assert quick_best(None, "w") is None
    assert not (tmp_path / "data").exists()
    record = samples.record()
    with open_store() as store:
        store.add(record)
    best = quick_best(None, samples.WORKLOAD.hash, samples.TARGET)
    assert best is not None and best.record == record


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hush@db:5/x?a=b", "postgresql://me:***@db:5/x?a=b"),
        ("postgresql://me:hu/s@h@db/x?password=hush&sslpassword=hush",
         "postgresql://me:***@db/x?password=***&sslpassword=***"),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
        ("sqlite:////a@b:c.db", "sqlite:////a@b:c.db"),
    ],
)  # fmt: skip
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_a_password_is_added_where_there_is_none() -> None:
    assert with_password("postgresql://me@db/x?a=b", "a/@") == "postgresql://me:a%2F%40@db/x?a=b"
    for url in ("postgresql://me:one@db/x", "postgresql://db/x", "sqlite:////a.db"):
        with pytest.raises(DatabaseUnavailable):
            with_password(url, "two")


@pytest.mark.parametrize("url", ["postgresql://me:hu@sh@db/x", "postgresql://me:hush@db:port/x"])
def test_what_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        open_store(url)
    assert "cannot be read" in str(refused.value) and "hu" not in str(refused.value)
