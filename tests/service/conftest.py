"""Services to test with."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "db")]  # for harness, fake_tuner and db_samples


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Any]:
    """``with start(run_jobs=False) as service:``; every start is on the same database."""
    from harness import Running, made_up_settings

    return partial(Running, made_up_settings(f"sqlite:///{tmp_path}/test.db"))


@pytest.fixture
def service(start: Callable[..., Any]) -> Iterator[Any]:
    with start() as service:
        yield service
