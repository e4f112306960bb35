"""Words in, exit code and text out, before any command does its work."""

import json
import subprocess
import sys

import pytest

from tunesmith import __version__
from tunesmith.cli.commands import COMMANDS

LIGHT = {"argparse", "numpy", "rich", "tunesmith.ir", "tunesmith.cli.commands"}


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_version(run) -> None:
    assert run("--version").out == f"tunesmith {__version__}\n"
    assert json.loads(run("--version", "--json").out) == {"version": __version__}


def test_version_loads_nothing() -> None:
    """The interpreter's own start is all it may cost."""
    code = "import sys; from tunesmith.cli.main import main; main(['--version']); print(*sys.modules)"
    assert not LIGHT & set(python(code).split())


def test_the_installed_command_is_this_one() -> None:
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="console_scripts", name="tunesmith")
    assert entry.value == "tunesmith.cli.main:main"


@pytest.mark.parametrize("words", [(), ("--help",), ("help",)])
def test_overview_names_every_command(run, words: tuple[str, ...]) -> None:
    outcome = run(*words)
    assert outcome.code == 0
    assert all(f"  {name} " in outcome.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name: str) -> None:
    outcome = run(name, "--help")
    assert outcome.code == 0
    assert "examples:" in outcome.out
    assert "--json" in outcome.out


def test_unknown_command_suggests_one(run) -> None:
    outcome = run("tnue", "x.py")
    assert outcome.code == 2
    assert "did you mean `tunesmith tune`?" in outcome.err
    assert outcome.out == ""


def test_usage_errors_exit_2_and_show_the_usage(run) -> None:
    outcome = run("tune", "x.py", "--trials", "-3")
    assert outcome.code == 2
    assert "--trials: invalid positive integer value: '-3'" in outcome.err
    assert "usage: tunesmith tune" in outcome.err
    assert "Traceback" not in outcome.err


def test_usage_errors_are_json_when_asked_for(run) -> None:
    outcome = run("best", "--json")
    assert outcome.code == 2
    error = json.loads(outcome.out)["error"]
    assert error["type"] == "UsageError"
    assert error["exit_code"] == 2
    assert "required: SOURCE" in error["message"]


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    code = "import sys; from tunesmith.cli.main import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{code}" | true; exit ${{PIPESTATUS[0]}}'],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
