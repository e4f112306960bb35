"""Golden text: what a test prints is held against a file, or written to it with --update-golden."""

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what tests print to tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)`` fails unless tests/golden/name.txt holds the text."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.read_text(encoding="utf-8") == text, "if it should change: pytest --update-golden"

    return check
