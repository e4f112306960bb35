"""Stores to test with. Everything in this folder runs on SQLite, and on PostgreSQL as well when the
environment variable TUNESMITH_TEST_POSTGRES holds a URL."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunesmith.db import Store, open_store

sys.path.insert(0, str(Path(__file__).parent))  # for db_samples, which child processes import as well

from fresh import FreshSchema, needs_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.db"
        return
    with FreshSchema() as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as store:
        yield store


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/test.db"
