"""The schema: migrations make what the models say, opening brings it up to date or explains."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import tunesmith.db
from tunesmith.db import DatabaseUnavailable, SchemaTooNew, Store, open_store
from tunesmith.db.models import metadata
from tunesmith.db.revisions import HEAD, REVISIONS


def test_models_are_what_migrations_make(store: Store) -> None:
    with store._database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_every_migration_is_known() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(tunesmith.db.__file__).parent / "migrations"))
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(reversed([script.revision for script in scripts])) == REVISIONS


def test_opening_again_keeps_everything(url: str) -> None:
    with open_store(url) as store:
        job_count = len(store.jobs.list().items)
    with open_store(url, create=False) as store:
        assert len(store.jobs.list().items) == job_count


def test_a_path_is_enough(tmp_path: Path) -> None:
    with open_store(tmp_path / "odd name%20?.db") as store:
        store.ping()
    assert (tmp_path / "odd name%20?.db").exists()


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with open_store(tmp_path / "empty.db") as store:
        store.ping()


def test_sqlite_settings(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store, store._database.engine.connect() as connection:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
    assert found == ["wal", 1, 1, 20000]


def test_a_newer_schema_is_left_alone(sqlite_url: str, tmp_path: Path) -> None:
    open_store(sqlite_url).close()
    with sqlite3.connect(tmp_path / "test.db") as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0999'")
    raw.close()
    with pytest.raises(SchemaTooNew, match=f"schema 0999, .* up to {HEAD}.*pip install --upgrade") as caught:
        open_store(sqlite_url)
    assert (caught.value.found, caught.value.known) == ("0999", HEAD)
    with pytest.raises(SchemaTooNew):
        tunesmith.db.quick_best(sqlite_url, "w")


@pytest.mark.parametrize("sql", ["CREATE TABLE songs (id)", "CREATE TABLE alembic_version (version_num)"])
def test_databases_of_other_programs_are_left_alone(sqlite_url: str, tmp_path: Path, sql: str) -> None:
    with sqlite3.connect(tmp_path / "test.db") as raw:
        raw.execute(sql)
        if "alembic" in sql:
            raw.execute("INSERT INTO alembic_version VALUES ('3f2a9c')")
    raw.close()
    with pytest.raises(DatabaseUnavailable, match="another program"):
        open_store(sqlite_url)


def test_nothing_is_created_unless_asked(sqlite_url: str, tmp_path: Path) -> None:
    for kwargs in ({"create": False}, {"read_only": True}):
        with pytest.raises(DatabaseUnavailable, match="no database at"):
            open_store(sqlite_url, **kwargs)
    (tmp_path / "test.db").touch()
    with pytest.raises(DatabaseUnavailable, match="not a Tunesmith database yet"):
        open_store(sqlite_url, create=False)
    assert [p.name for p in tmp_path.iterdir()] == ["test.db"]


def test_a_migration_that_fails_leaves_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a schema could neither be used nor be upgraded."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("alembic.op.create_index", broken)
        with pytest.raises(ZeroDivisionError):
            open_store(url)
    with open_store(url) as store:
        store.ping()


def loaded_by(code: str, *args: str) -> set[str]:
    """Which of the heavy libraries a fresh process loads."""
    code += "\nimport sys; print(*{m.split('.')[0] for m in sys.modules} & {'sqlalchemy', 'alembic'})"
    run = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_imports_stay_light(sqlite_url: str) -> None:
    """An import of either is slower than the lookup that a command line wants to make."""
    open_store(sqlite_url).close()
    assert loaded_by("import tunesmith.db") == set()
    quick = "import sys, tunesmith.db as db; assert db.quick_best(sys.argv[1], 'w') is None"
    assert loaded_by(quick, sqlite_url) == set()
    opened = "import sys, tunesmith.db as db; db.open_store(sys.argv[1]).close()"
    assert loaded_by(opened, sqlite_url) == {"sqlalchemy"}
