"""`tunesmith doctor`: every finding says what to do, and only what is essential fails."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tunesmith.cli import checks, doctor
from tunesmith.cli.checks import Check, Level


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks that measure or depend on this machine answer at once."""
    for name in ("check_llvm", "check_governor", "check_load", "check_openmp", "check_c_compiler"):
        monkeypatch.setattr(checks, name, lambda name=name: Check(name, Level.OK, "fine"))
    monkeypatch.setattr(checks, "check_target", lambda *, fresh: [Check("cpu", Level.OK, "fine")])


def test_healthy_machine(run, healthy, database: str) -> None:
    outcome = run("doctor", "--quick", "--db", database)
    assert outcome.code == 0
    assert outcome.out.endswith("this machine can tune\n")
    assert "none yet; the first run creates" in outcome.out


def test_warnings_do_not_fail(run, healthy, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "check_load", lambda: Check("load", Level.WARNING, "9.0", "wait"))
    outcome = run("doctor", "--quick", "--db", database)
    assert outcome.code == 0
    assert "warning  load        9.0" in outcome.out
    assert "→ wait" in outcome.out


def test_a_check_that_raises_is_a_finding(
    run, healthy, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Check:
        raise ImportError("no module named llvmlite")

    monkeypatch.setattr(checks, "check_llvm", broken)
    outcome = run("doctor", "--quick", "--db", database, "--json")
    assert outcome.code == 1
    report = json.loads(outcome.out)
    assert not report["ok"]
    found = {check["name"]: check for check in report["checks"]}
    assert found["llvm"]["level"] == "broken"
    assert "no module named llvmlite" in found["llvm"]["detail"]
    assert found["disk"]["level"] == "ok"


def test_a_file_that_is_no_database_is_broken(run, healthy, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are notes\n" * 100)
    outcome = run("doctor", "--quick", "--db", f"sqlite:///{path}")
    assert outcome.code == 1
    assert "broken: database" in outcome.out
    assert path.read_text().startswith("these are notes")


@pytest.mark.parametrize(
    ("governor", "driver", "level"),
    [
        ("performance", "acpi-cpufreq", Level.OK),
        ("powersave", "acpi-cpufreq", Level.WARNING),
        ("powersave", "intel_pstate", Level.OK),
        ("", "", Level.OK),
    ],
)
def test_governors(monkeypatch: pytest.MonkeyPatch, governor: str, driver: str, level: Level) -> None:
    texts = {checks._GOVERNOR: governor, checks._DRIVER: driver}
    monkeypatch.setattr(checks, "_read", texts.__getitem__)
    assert checks.check_governor().level is level


@pytest.mark.parametrize(
    ("free", "level"), [(1 << 40, Level.OK), (1 << 29, Level.WARNING), (1, Level.BROKEN)]
)
def test_disks(monkeypatch: pytest.MonkeyPatch, database: str, free: int, level: Level) -> None:
    class Usage:
        def __init__(self, path: Path) -> None:
            self.free = free

    monkeypatch.setattr("shutil.disk_usage", Usage)
    assert checks.check_disk(database).level is level


def test_missing_compiler_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    check = checks.check_c_compiler()
    assert check.level is Level.WARNING
    assert "install" in check.advice


@pytest.mark.parametrize(
    "check", [checks.check_python, checks.check_llvm, checks.check_load, checks.check_openmp]
)
def test_real_checks_find_this_machine_sound(check: Callable[[], Check]) -> None:
    found = check()
    assert found.level is not Level.BROKEN
    assert found.detail


def test_every_check_is_made() -> None:
    public = {name for name in checks.__all__ if name.startswith("check_")}
    source = Path(doctor.__file__).read_text()
    assert {name for name in public if f"checks.{name}" not in source} == set()


def test_a_model_that_cannot_be_used_is_a_warning(
    run, healthy, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNESMITH_MODEL", str(tmp_path / "gone.zip"))
    outcome = run("doctor", "--quick", "--db", database)
    assert outcome.code == 0
    assert "warning  cost model  there is no model" in outcome.out
    assert "the analytic prior ranks alone" in outcome.out
