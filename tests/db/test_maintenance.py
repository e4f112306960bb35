"""Upgrades, backups and putting them in place."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import db_samples as samples
import pytest
from old_databases import old_database
from test_migrations import of_job, rows
from test_processes import writer

from tunesmith.db import Conflict, DatabaseUnavailable, NotFound, SchemaTooNew, open_store, quick_best
from tunesmith.db.maintenance import backup, condition, restore, upgrade_database
from tunesmith.db.revisions import HEAD
from tunesmith.records import new_id

HASH = samples.WORKLOAD.hash


@pytest.fixture
def path(sqlite_url: str) -> Path:
    """Of a database with two records."""
    with open_store(sqlite_url) as store:
        store.add_all([samples.record(), samples.record(None)])
    return Path(sqlite_url.removeprefix("sqlite:///"))


def ids(url: str | Path) -> list[str]:
    with open_store(url, create=False) as store:
        return sorted(record.id for record in store.records(limit=10_000).items)


def set_revision(url: str, revision: str) -> None:
    with open_store(url) as store, store._database.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")


# -- condition and upgrade ----------------------------------------------------------------------------------


def test_condition(url: str) -> None:
    assert condition(url).state in ("absent", "empty")
    with open_store(url) as store:
        store.add_all([samples.record(), samples.record(None)])
    found = condition(url)
    assert (found.state, found.found, found.head) == ("current", HEAD, HEAD)
    assert found.counts["record"] == 2 and found.counts["workload"] == 1 and found.size_bytes > 10_000


def test_condition_of_other_schemas(url: str) -> None:
    records = of_job(new_id())
    old_database(url, "0001", rows(["succeeded"], records))
    found = condition(url)
    assert (found.state, found.found, found.counts["record"]) == ("older", "0001", len(records))
    assert "event" not in found.counts, "there is no such table yet"
    with open_store(url):
        pass
    set_revision(url, "0999")
    found = condition(url)
    assert (found.state, found.found, found.counts["record"]) == ("newer", "0999", len(records))
    with pytest.raises(SchemaTooNew, match="pip install --upgrade"):
        upgrade_database(url)


def test_condition_tells_no_password(url: str) -> None:
    if not url.startswith("sqlite"):
        assert "secret" not in condition(url.replace("tunesmith@", "tunesmith:secret@")).where


def test_an_upgrade_keeps_a_copy(url: str) -> None:
    records = of_job(new_id())
    old_database(url, "0002", rows(["succeeded"], records))
    done = upgrade_database(url)
    assert (done.before, done.after) == ("0002", HEAD)
    assert ids(url) == sorted(record.id for record in records)
    if url.startswith("sqlite"):
        assert done.backup and condition(f"sqlite:///{done.backup}").found == "0002"
        assert condition(f"sqlite:///{done.backup}").counts["record"] == len(records)
    again = upgrade_database(url)
    assert (again.before, again.backup) == (HEAD, None)


def test_an_upgrade_makes_a_database(url: str) -> None:
    done = upgrade_database(url)
    assert (done.before, done.after, done.backup) == (None, HEAD, None)
    assert condition(url).state == "current"


# -- backups ------------------------------------------------------------------------------------------------


def test_a_backup_while_others_write(sqlite_url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with open_store(sqlite_url):
        pass
    with writer(sqlite_url, 100_000) as process:
        assert process.stdout
        told = [process.stdout.readline().strip() for _ in range(30)]
        backup(sqlite_url, copy)
        after = process.stdout.readline().strip()
        process.kill()
        process.stdout.read()
    there = ids(copy)
    assert set(told) <= set(there) and after
    with open_store(copy) as store:
        assert store.workloads().items[0].n_records == len(there), "one moment"
    assert not list(tmp_path.glob(".*.part*"))


def test_a_backup_is_one_file_and_overwrites_nothing(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    copy = folder / "copy.db"
    size = backup(path, copy)
    assert [file.name for file in folder.iterdir()] == ["copy.db"] and copy.stat().st_size == size
    with pytest.raises(Conflict, match="--force"):
        backup(path, copy)
    backup(path, copy, overwrite=True)
    assert ids(copy) == ids(path)


def test_a_backup_copied_into_place_is_shared_again(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    backup(path, copy)
    with open_store(copy):
        pass
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_restore(path: Path, tmp_path: Path) -> None:
    copy, saved = tmp_path / "copy.db", ids(path)
    backup(path, copy)
    with open_store(path) as store:
        store.add(samples.record())
    with pytest.raises(Conflict, match="holds data"):
        restore(path, copy)
    assert len(ids(path)) == 3
    found = restore(path, copy, overwrite=True)
    assert found.counts["record"] == 2 and ids(path) == saved
    elsewhere = tmp_path / "new.db"
    restore(elsewhere, copy)
    assert ids(elsewhere) == saved
    assert not list(tmp_path.glob(".*.part*"))


def test_restore_leaves_a_database_in_use_alone(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    backup(path, copy)
    script = (
        "import sys; from tunesmith.db import open_store\n"
        "store = open_store(sys.argv[1]); store.records(); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline() == b"open\n"
        with pytest.raises(Conflict, match="another process"):
            restore(path, copy, overwrite=True)
        process.communicate()
    restore(path, copy, overwrite=True)


def test_the_log_of_the_old_file_is_not_of_the_new_one(path: Path, tmp_path: Path) -> None:
    """A killed process leaves a log behind, which must not be played over the backup."""
    copy = tmp_path / "copy.db"
    backup(path, copy)
    saved = ids(path)
    with writer(f"sqlite:///{path}", 100_000) as process:
        assert process.stdout
        for _ in range(20):
            process.stdout.readline()
        process.kill()
        process.stdout.read()
    assert path.with_name(path.name + "-wal").stat().st_size
    restore(path, copy, overwrite=True)
    assert ids(path) == saved


def damage(copy: Path, how: str) -> None:
    data = bytearray(copy.read_bytes())
    if how == "text":
        data = bytearray(b"no database\n")
    elif how == "truncated":
        data = data[: len(data) // 2]
    elif how == "empty":
        data = bytearray()
    elif how == "scribbled":
        for at in range(8192, len(data), 4096):
            data[at : at + 64] = b"\xa5" * 64
    copy.write_bytes(data)


@pytest.mark.parametrize("how", ["text", "truncated", "empty", "scribbled"])
def test_damaged_backups_change_nothing(path: Path, tmp_path: Path, how: str) -> None:
    copy, before = tmp_path / "copy.db", ids(path)
    backup(path, copy)
    damage(copy, how)
    with pytest.raises(DatabaseUnavailable):
        restore(path, copy, overwrite=True)
    assert ids(path) == before
    assert not list(tmp_path.glob(".*.part*"))


def test_backups_of_others(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as raw:
        raw.execute("CREATE TABLE t (x)")
    with pytest.raises(DatabaseUnavailable, match="no backup"):
        restore(path, other, overwrite=True)
    with pytest.raises(NotFound):
        restore(path, tmp_path / "missing.db", overwrite=True)
    copy = tmp_path / "copy.db"
    backup(path, copy)
    set_revision(f"sqlite:///{copy}", "0999")
    with pytest.raises(SchemaTooNew):
        restore(path, copy, overwrite=True)


def test_a_damaged_database_can_be_replaced(path: Path, tmp_path: Path) -> None:
    copy, saved = tmp_path / "copy.db", ids(path)
    backup(path, copy)
    damage(path, "scribbled")
    with pytest.raises(DatabaseUnavailable, match="damaged"):
        backup(path, tmp_path / "of damage.db")
    assert not (tmp_path / "of damage.db").exists()
    restore(path, copy, overwrite=True)
    assert ids(path) == saved


def test_an_older_backup_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    old, records = tmp_path / "old.db", of_job(new_id())
    old_database(f"sqlite:///{old}", "0001", rows(["succeeded"], records))
    path = tmp_path / "new.db"
    assert restore(path, old).state == "older"
    assert ids(path) == sorted(record.id for record in records)


def test_postgresql_has_its_own_tools(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        return
    with pytest.raises(DatabaseUnavailable, match="pg_dump"):
        backup(url, tmp_path / "copy")
    with pytest.raises(DatabaseUnavailable, match="pg_restore"):
        restore(url, tmp_path / "copy")


# -- where nothing can be written ---------------------------------------------------------------------------

READER = """
import os, sys
from tunesmith.db import DatabaseUnavailable, open_store, quick_best
os.setgroups([]); os.setgid(65534); os.setuid(65534)
url, workload = sys.argv[1:]
with open_store(url, create=False) as store:
    print(len(store.records().items), quick_best(url, workload).record.id)
    try:
        store.keys.create("x", [])
    except DatabaseUnavailable as error:
        print(error)
"""


@pytest.fixture
def stranger(path: Path) -> Iterator[Path]:
    """The database in a folder that an unprivileged user can read only."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    folders = [path.parent, *path.parent.parents]
    modes = {folder: folder.stat().st_mode for folder in folders}
    for folder in folders:
        folder.chmod(modes[folder] | 0o055)
    path.chmod(0o644)
    yield path
    for folder in folders:
        folder.chmod(modes[folder])


def read_as_nobody(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", READER, f"sqlite:///{path}", HASH]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_reading_where_nothing_can_be_written(stranger: Path) -> None:
    for file in stranger.parent.glob(f"{stranger.name}-*"):
        file.unlink()
    before = sorted(file.name for file in stranger.parent.iterdir())
    done = read_as_nobody(stranger)
    best = quick_best(f"sqlite:///{stranger}", HASH)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert best and told[0] == f"2 {best.record.id}"
    assert "not writable" in told[1]
    assert set(before) <= {file.name for file in stranger.parent.iterdir()}


def test_what_is_only_in_the_log_is_not_overlooked(stranger: Path) -> None:
    """Without the other two files SQLite cannot read it; leaving it out would be a lie."""
    with writer(f"sqlite:///{stranger}", 100_000) as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()
        process.stdout.read()
    stranger.with_name(stranger.name + "-shm").unlink()
    done = read_as_nobody(stranger)
    assert done.returncode == 1 and "DatabaseUnavailable" in done.stderr


def test_an_older_schema_where_nothing_can_be_written(tmp_path: Path, stranger: Path) -> None:
    stranger.unlink()
    old_database(f"sqlite:///{stranger}", "0001", rows(["succeeded"], of_job(new_id())))
    stranger.chmod(0o644)
    stranger.with_name(stranger.name + ".lock").unlink(missing_ok=True)
    done = read_as_nobody(stranger)
    assert done.returncode == 1 and "tunesmith db upgrade" in done.stderr
