"""How little the client needs: it starts at once, on machines that tune nothing."""

import subprocess
import sys

import pytest

HEAVY = {"numpy", "sqlalchemy", "alembic", "llvmlite", "xgboost", "fastapi", "pydantic", "rich", "psutil"}
OURS = {"tunesmith.ir", "tunesmith.db", "tunesmith.records", "tunesmith.tuning", "tunesmith.measure"}

JOBS = """
from tunesmith.cli.main import main
from tunesmith.client import Client
Client.jobs = lambda *_, **__: iter(())
code = main(["jobs", "ls", "--url", "http://localhost:1"])
assert code == 0, code
"""


@pytest.mark.parametrize(
    "code", ["import tunesmith.client", "import tunesmith; tunesmith.connect('http://localhost:1')", JOBS]
)
def test_nothing_heavy_is_imported(code: str) -> None:
    told = "import sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not (HEAVY | OURS) & set(done.stderr.split())
