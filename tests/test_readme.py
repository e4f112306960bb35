"""What the README shows runs as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs(tmp_path: Path) -> None:
    text = README.read_text().split("## In Python", 1)[1]
    match = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert match is not None
    example = tmp_path / "example.py"
    example.write_text(match[1].replace("trials=64", "trials=2"))
    done = subprocess.run(
        [sys.executable, str(example)],
        env={**os.environ, "TUNESMITH_DB": f"sqlite:///{tmp_path / 'readme.db'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "trials" in done.stdout
