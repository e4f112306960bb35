"""Services to test with."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "db")]  # for harness, fake_tuner, db_samples and fresh

from fresh import FreshSchema, needs_postgres  # noqa: E402


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Any]:
    """``with start(run_jobs=False) as service:``; every start is on the same database."""
    from harness import Running, made_up_settings

    return partial(Running, made_up_settings(f"sqlite:///{tmp_path}/test.db"))


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def any_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('db')}/test.db"
        return
    with FreshSchema() as url:
        yield url


@pytest.fixture
def service(start: Callable[..., Any]) -> Iterator[Any]:
    with start() as service:
        yield service
