"""What is shipped to run the service with: units, compose file and image say what the program understands."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tunesmith.cli.commands import COMMANDS, Parser
from tunesmith.cli.configuration import SETTINGS, add_settings, configure
from tunesmith.service.settings import Settings

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "units").glob("*.service"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
VARIABLES = {setting.variable for setting in SETTINGS}
STOP_S = Settings(None, None).stop_s


def understood(words: list[str], environment: dict[str, str]) -> None:
    """Raises unless a server or worker takes these."""
    command, *rest = words
    assert command in COMMANDS and command in ("serve", "worker")
    parser = Parser(allow_abbrev=False)
    add_settings(parser, command)
    args = parser.parse_args(rest)
    args.config = None
    configure(args, environment)
    assert {name for name in environment if name.startswith("TUNESMITH_")} <= VARIABLES


def entries(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit(unit: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = entries(unit)
    program, *words = shlex.split(found["ExecStart"][0])
    assert program.endswith("/bin/tunesmith")
    pairs = (pair.partition("=") for text in found["Environment"] for pair in text.split())
    understood(words, {name: value for name, _, value in pairs})
    assert found["KillMode"] == ["mixed"], "else what is measured is told to end, and counts as failed"
    assert float(found["TimeoutStopSec"][0]) > STOP_S + 30
    assert found["SystemCallFilter"] == ["@system-service seccomp"]
    assert "MemoryDenyWriteExecute" not in found, "kernels are compiled in memory"
    assert "PrivateNetwork" not in found and "ProcSubset" not in found


def test_units_agree_in_what_confines_them() -> None:
    own = {"Description", "ExecStart", "Environment", "LoadCredential"}
    first, second = ({k: v for k, v in entries(unit).items() if k not in own} for unit in UNITS)
    assert first == second


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_a_unit(unit: Path, tmp_path: Path) -> None:
    program = tmp_path / "tunesmith"
    program.touch(0o755)
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/tunesmith/bin/tunesmith", str(program)))
    run = ["systemd-analyze", "verify", "--man=no", str(copy)]
    said = subprocess.run(run, capture_output=True, text=True, check=False)
    assert not [line for line in (said.stdout + said.stderr).splitlines() if unit.name in line]


def test_compose_runs_what_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("server", "worker"):
        service = COMPOSE["services"][name]
        understood(service["command"], service["environment"])
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["healthcheck"]["test"] and service["stop_grace_period"] == "2m"
    assert STOP_S + 30 < 120


def test_compose_shows_nothing_to_the_network_and_has_no_password() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)
    assert COMPOSE["networks"]["inside"]["internal"]
    for service in COMPOSE["services"].values():
        assert "outside" not in service["networks"] or service is COMPOSE["services"]["server"]
        for name, value in service["environment"].items():
            assert "PASSWORD" not in name or value == "/run/secrets/db_password"
    text = (ROOT / "compose.yaml").read_text()
    assert not re.search(r"://\w+:\w+@", text)
    for name in (".gitignore", ".dockerignore"):
        assert "secrets" in (ROOT / name).read_text(), "the password stays out of repository and image"


def test_the_image_runs_as_nobody_in_particular() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert "USER tunesmith" in lines and lines.index("USER tunesmith") < lines.index('CMD ["serve"]')
    assert "gcc" in "\n".join(lines)
