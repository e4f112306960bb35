"""Settings of a server or worker: where they come from, which is stronger, and what is told of wrong ones."""

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tunesmith.cli.commands import Parser
from tunesmith.cli.configuration import SETTINGS, Configuration, Setting, add_settings, configure
from tunesmith.cli.errors import UsageError
from tunesmith.cli.main import main
from tunesmith.service import Limits, Settings

DOCUMENT = Path(__file__).parents[2] / "docs" / "service.md"
HOME = "XDG_CONFIG_HOME"


@pytest.fixture(autouse=True)
def nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)


def parsed(*words: str, command: str = "serve") -> argparse.Namespace:
    parser = Parser(allow_abbrev=False)
    add_settings(parser, command)
    return parser.parse_args(words)


def configured(*words: str, environ: dict[str, str] | None = None) -> Configuration:
    return configure(parsed(*words), environ or {})


def from_where(configuration: Configuration, name: str) -> tuple[Any, str]:
    return next((h.value, h.origin) for h in configuration.held if h.setting.name == name)


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    (tmp_path / "tunesmith.toml").write_text('port = 1\nhost = "::1"\njobs = false\nhosts = ["a", "b"]')
    variables = {"TUNESMITH_PORT": "2", "TUNESMITH_HOST": "10.0.0.1"}
    found = configured("--port", "3", environ=variables)
    assert from_where(found, "port") == (3, "--port")
    assert from_where(found, "host") == ("10.0.0.1", "TUNESMITH_HOST")
    assert from_where(found, "jobs") == (False, "tunesmith.toml")
    assert from_where(found, "hosts") == (("a", "b"), "tunesmith.toml")
    assert from_where(found, "log_level") == ("info", "default")
    assert from_where(configured("--jobs"), "jobs") == (True, "--jobs")
    assert from_where(configured("--no-jobs"), "jobs") == (False, "--no-jobs")


def test_which_file_is_read(tmp_path: Path) -> None:
    own = tmp_path / "home" / "tunesmith" / "tunesmith.toml"
    own.parent.mkdir(parents=True)
    own.write_text("port = 1")
    assert from_where(configured(), "port") == (1, str(own))
    (tmp_path / "tunesmith.toml").write_text("port = 2")
    assert from_where(configured(), "port") == (2, "tunesmith.toml")
    named = tmp_path / "other.toml"
    named.write_text("port = 3")
    assert from_where(configured("--config", str(named)), "port") == (3, str(named))
    assert configured(environ={"TUNESMITH_CONFIG": str(named)})["port"] == 3
    with pytest.raises(UsageError, match=r"nowhere\.toml cannot be read: No such file"):
        configured("--config", "nowhere.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prot = 1", "tunesmith.toml: unknown key prot; did you mean port?"),
        ("[limits]\nbodies = 1", "unknown key limits.bodies; did you mean limits.body_bytes?"),
        ("[server]\nport = 1", "unknown key server.port"),
        ("limits = 3", "unknown key limits"),
        ("port = '8700'", "tunesmith.toml: port must be an integer from 0 to 65535, not '8700'"),
        ("port = 65536", "port must be an integer from 0 to 65535, not 65536"),
        ("port = true", "port must be an integer from 0 to 65535, not True"),
        ("jobs = 1", "jobs must be true or false, not 1"),
        ("hosts = 'a'", "hosts must be a list of names, not 'a'"),
        ("stop_s = nan", "stop_s must be a positive number, not nan"),
        ("event_days = -1", "event_days must be a positive number, not -1"),
        ("log_level = 'loud'", "log_level must be one of debug, info, warning, error, not 'loud'"),
        ("[limits]\nbody_bytes = 1.5", "limits.body_bytes must be a positive integer, not 1.5"),
        ("port = ", "tunesmith.toml is no TOML: "),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "tunesmith.toml").write_text(text)
    with pytest.raises(UsageError) as refused:
        configured()
    assert told in str(refused.value)


def test_wrong_variables_and_flags() -> None:
    with pytest.raises(UsageError, match="TUNESMITH_PORT must be an integer from 0 to 65535, not 'x'"):
        configured(environ={"TUNESMITH_PORT": "x"})
    with pytest.raises(UsageError, match="TUNESMITH_JOBS must be true or false, not 'maybe'"):
        configured(environ={"TUNESMITH_JOBS": "maybe"})
    with pytest.raises(UsageError, match="--log-format must be one of text, json, not 'xml'"):
        configured("--log-format", "xml")
    with pytest.raises(UsageError, match="TUNESMITH_LIMITS_BODY is no setting; did you mean"):
        configured(environ={"TUNESMITH_LIMITS_BODY": "1"})
    assert configured(environ={"TUNESMITH_URL": "other commands' own"})["port"] == 8700


def example(setting: Setting) -> tuple[str, str, Any]:
    """As a text, in TOML, and the value; other than the default."""
    kinds = {
        "a text": ("x", '"x"', "x"),
        "true or false": (str(not setting.default), str(not setting.default).lower(), not setting.default),
        "a list of names": ("x, y", '["x", "y"]', ("x", "y")),
        "a positive number": ("1.5", "1.5", 1.5),
    }
    if setting.kind.expected.startswith("one of"):
        name = setting.kind.expected.rpartition(" ")[2]
        return name, f'"{name}"', name
    return kinds.get(setting.kind.expected, ("77", "77", 77))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_has_its_flag_variable_and_key(tmp_path: Path, setting: Setting) -> None:
    text, toml, value = example(setting)
    assert configured(environ={setting.variable: text})[setting.name] == value
    table, _, key = setting.name.rpartition(".")
    (tmp_path / "tunesmith.toml").write_text((f"[{table}]\n" if table else "") + f"{key} = {toml}")
    assert configured()[setting.name] == value
    words = [setting.flag, text]
    if isinstance(value, bool):
        words = [setting.flag if value else setting.flag.replace("--", "--no-")]
    for command in setting.commands:
        assert configure(parsed(*words, command=command), {})[setting.name] == value


def test_limits_are_those_of_the_service() -> None:
    mine = {s.name.partition(".")[2]: s.default for s in SETTINGS if s.name.startswith("limits.")}
    assert mine == {field.name: getattr(Limits(), field.name) for field in fields(Limits)}
    given = configured("--limits-body-bytes", "5", "--no-jobs", "--hosts", "tune.example.org").settings()
    assert (given.limits.body_bytes, given.run_jobs) == (5, False)
    assert given.hosts == (*Settings(None, given.tools).hosts, "tune.example.org")


def test_defaults_are_those_of_the_service() -> None:
    given = configured().settings()
    assert given == Settings(None, given.tools)


def test_the_password_stays_unseen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNESMITH_DB", "postgresql://me:hush%21@db/tunes?sslpassword=hush%21")
    for words in (
        ["serve", "--print-config"],
        ["worker", "--print-config", "--json"],
        ["serve", "--help"],
        ["serve", "--db", "postgresql://me:hush!@db:x/tunes"],
        ["doctor", "--quick", "--json", "--db", "postgresql://me:hush!@127.0.0.1:9/tunes"],
        ["keys", "ls", "--db", "postgresql://me:hu/sh!@127.0.0.1:9/tunes"],
    ):
        main(words)
        shown = capfd.readouterr()
        assert "hush" not in shown.out + shown.err and "sh!" not in shown.out + shown.err, words
    assert main(["serve", "--print-config"]) == 0
    assert "postgresql://me:***@db/tunes?sslpassword=***" in capfd.readouterr().out


def test_the_password_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a/b@c\n")
    given = configured("--db", "postgresql://me@db/tunes", "--db-password-file", str(file)).settings()
    assert given.url == "postgresql://me:a%2Fb%40c@db/tunes"


def test_what_holds_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "1", "--print-config", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown["port"] == {"value": 1, "from": "--port"}
    assert list(shown) == [setting.name for setting in SETTINGS]
    assert main(["worker", "--port", "1"]) == 2, "a worker listens nowhere"


def test_the_table_of_the_document_is_this_one() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    cores = "the number of cores"
    assert [row for row in rows if "TUNESMITH_" in row] == [
        f"| `{s.name}` | `{s.flag}` | `{s.variable}` | {cores if 'threads' in s.name else s.shown(s.default)}"
        f" | {s.what} |"
        for s in SETTINGS
    ]
