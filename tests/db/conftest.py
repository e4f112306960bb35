"""Stores to test with. Everything in this folder runs on SQLite, and on PostgreSQL as well when the
environment variable TUNESMITH_TEST_POSTGRES holds a URL."""

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunesmith.db import Store, open_store

sys.path.insert(0, str(Path(__file__).parent))  # for db_samples, which child processes import as well

POSTGRES = os.environ.get("TUNESMITH_TEST_POSTGRES")
needs_postgres = pytest.mark.skipif(not POSTGRES, reason="TUNESMITH_TEST_POSTGRES is not set")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.db"
        return
    with fresh_schema() as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as store:
        yield store


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/test.db"


class fresh_schema:
    """A PostgreSQL schema of its own for one test."""

    def __enter__(self) -> str:
        self._name = f"test_{uuid.uuid4().hex}"
        self._run(f"CREATE SCHEMA {self._name}")
        return f"{POSTGRES}?options=-csearch_path%3D{self._name}"

    def __exit__(self, *_: object) -> None:
        self._run(f"DROP SCHEMA {self._name} CASCADE")

    def _run(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(POSTGRES, autocommit=True) as connection:
            connection.execute(statement)
