"""Backups, restoring, pruning and looking at databases of any schema."""

import datetime as dt
import sqlite3
import threading
from pathlib import Path

import pytest
from db_samples import record, workload
from old_databases import old_database

from tunesmith.db import DatabaseUnavailable, JobSpec, Store, open_store
from tunesmith.db.backups import backup, restore
from tunesmith.db.inspection import inspect
from tunesmith.db.revisions import HEAD
from tunesmith.records import utc_now

OLD = dt.timedelta(days=100)


def test_what_a_database_is(url: str) -> None:
    with open_store(url) as store:
        store.add_all([record(), record(None)])
    found = inspect(url)
    assert (found.revision, found.state, found.counts["record"]) == (HEAD, "current", 2)
    assert found.size_bytes > 0


def test_older_and_newer_schemas_are_looked_at(url: str) -> None:
    old_database(url, "0002", {})
    assert (inspect(url).revision, inspect(url).state) == ("0002", "older")


def test_a_newer_and_a_foreign_database(tmp_path: Path) -> None:
    for name, sql, state in (
        ("newer", "CREATE TABLE alembic_version (version_num TEXT);"
         "INSERT INTO alembic_version VALUES ('9999')", "newer"),
        ("foreign", "CREATE TABLE thing (x)", "foreign"),
        ("empty", "", "empty"),
    ):  # fmt: skip
        with sqlite3.connect(tmp_path / name) as connection:
            connection.executescript(sql)
        connection.close()
        assert inspect(str(tmp_path / name)).state == state


def test_a_backup_while_others_write(tmp_path: Path) -> None:
    """It holds a moment: so many records as their workload counts, and those of before."""
    path = tmp_path / "live.db"
    with open_store(path) as store:
        store.add_all([record() for _ in range(300)])
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                store.add_all([record() for _ in range(20)])

        writer = threading.Thread(target=write)
        writer.start()
        try:
            backup(str(path), tmp_path / "copy.db")
        finally:
            over.set()
            writer.join()
    with open_store(tmp_path / "copy.db") as copied:
        (summary,) = copied.workloads().items
        assert inspect(str(tmp_path / "copy.db")).counts["record"] == summary.n_records >= 300
    assert not list(tmp_path.glob("*.partial"))


def test_backups_overwrite_nothing(tmp_path: Path, sqlite_url: str) -> None:
    open_store(sqlite_url).close()
    (tmp_path / "there").write_text("precious")
    with pytest.raises(DatabaseUnavailable, match="exists"):
        backup(sqlite_url, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "precious"
    with pytest.raises(DatabaseUnavailable, match="itself"):
        backup(sqlite_url, tmp_path / "test.db", force=True)
    with pytest.raises(DatabaseUnavailable, match="no database"):
        backup(str(tmp_path / "nowhere"), tmp_path / "copy")
    with pytest.raises(DatabaseUnavailable):
        backup(sqlite_url, tmp_path / "no" / "folder")
    assert backup(sqlite_url, tmp_path / "there", force=True) > 0


def test_restoring(tmp_path: Path, sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        store.add(record())
        backup(sqlite_url, tmp_path / "copy")
        store.add(record())
        with pytest.raises(DatabaseUnavailable, match="not empty"):
            restore(sqlite_url, tmp_path / "copy")
    restore(sqlite_url, tmp_path / "copy", force=True)
    restore(f"sqlite:///{tmp_path}/fresh.db", tmp_path / "copy")
    for path in ("test.db", "fresh.db"):
        with open_store(tmp_path / path) as store:
            assert len(store.summaries().items) == 1
            store.add(record())


def test_bad_backups_change_nothing(tmp_path: Path, sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        store.add_all([record() for _ in range(200)])
        backup(sqlite_url, tmp_path / "copy")
    torn = bytearray((tmp_path / "copy").read_bytes())
    for start in range(4096, len(torn) - 4096, 8192):
        torn[start : start + 4096] = b"\xa5" * 4096
    (tmp_path / "torn").write_bytes(torn)
    (tmp_path / "short").write_bytes((tmp_path / "copy").read_bytes()[:9000])
    (tmp_path / "text").write_text("hello")
    (tmp_path / "nothing").touch()
    for name in ("torn", "short", "text", "nothing", "absent"):
        with pytest.raises(DatabaseUnavailable):
            restore(sqlite_url, tmp_path / name, force=True)
    with open_store(sqlite_url) as store:
        assert len(store.summaries(limit=1000).items) == 200


def test_an_older_backup_is_brought_up_to_date(tmp_path: Path, sqlite_url: str) -> None:
    old_database(f"sqlite:///{tmp_path}/old", "0001", {})
    restore(sqlite_url, tmp_path / "old")
    assert inspect(sqlite_url).state == "current"


def test_pruning_keeps_what_is_served(store: Store) -> None:
    then = utc_now() - OLD
    job, _ = store.jobs.create(JobSpec(workload(1), {}, {}, trials=4))
    fast, slow, raced, other = (record(t, created_at=then) for t in (1e-3, 2e-3, 3e-3, 4e-3))
    failed = record(None, created_at=then)
    young = record(5e-3)
    ours = record(2e-3, workload=workload(1), created_at=then, job_id=job.id)
    built = record(6e-3, created_at=then)
    store.add_all([fast, slow, raced, other, failed, young, ours, built])
    store.artifacts.put(built.id, "asm", b"ret")

    def left() -> set[str]:
        return {item.id for item in store.summaries().items}

    everything = left()
    assert store.prune(OLD / 2, failed_only=True, dry_run=True).records == 1
    assert left() == everything
    gone = store.prune(OLD / 2, failed_only=True)
    assert (gone.records, gone.failed) == (1, 1) and left() == everything - {failed.id}

    store.set_race({raced.id: 1.5e-3})
    gone = store.prune(OLD / 2)
    assert (gone.records, gone.failed) == (3, 0)
    assert left() == {raced.id, young.id, ours.id, built.id}
    counts = {w.hash: (w.n_records, w.n_failed) for w in store.workloads().items}
    assert counts == {young.workload.hash: (3, 0), ours.workload.hash: (1, 0)}
    assert store.prune(OLD / 2).records == 0


def test_pruning_goes_on_beyond_one_batch(store: Store) -> None:
    then = utc_now() - OLD
    store.add_all([record(1e-3 + i * 1e-6, created_at=then) for i in range(1203)])
    assert store.prune(OLD / 2).records == 1202
    (only,) = store.workloads().items
    assert (only.n_records, only.best_s) == (1, 1e-3)
