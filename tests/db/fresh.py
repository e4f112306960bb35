"""PostgreSQL to test with, where the environment variable TUNESMITH_TEST_POSTGRES holds a URL."""

import os
import uuid

import pytest

__all__ = ["POSTGRES", "FreshSchema", "needs_postgres"]

POSTGRES = os.environ.get("TUNESMITH_TEST_POSTGRES")
needs_postgres = pytest.mark.skipif(not POSTGRES, reason="TUNESMITH_TEST_POSTGRES is not set")


class FreshSchema:
    """``with FreshSchema() as url:`` is an empty database, a schema of its own."""

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
