"""How a server or worker is set up: by flags, environment and file, in this order of strength.

One table names every setting; its flag, its variable and its key follow from the name: ``limits.body_bytes``
is ``--limits-body-bytes``, ``TUNESMITH_LIMITS_BODY_BYTES``, and ``body_bytes`` under ``[limits]``.
"""

import argparse
import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tunesmith.cli.errors import UsageError
from tunesmith.db.urls import without_password
from tunesmith.service.logs import FORMATS, LEVELS
from tunesmith.service.settings import LOOPBACK, Limits, Settings

__all__ = ["SETTINGS", "Configuration", "Held", "Kind", "Setting", "add_settings", "configure"]

FILE_NAME = "tunesmith.toml"


@dataclass(frozen=True, slots=True)
class Kind:
    """``of_text`` and ``of_toml`` give the value, or raise ``ValueError``."""

    expected: str
    of_text: Callable[[str], Any]
    of_toml: Callable[[Any], Any]


def _typed(
    kind: type | tuple[type, ...], holds: Callable[[Any], bool] = lambda _: True
) -> Callable[[Any], Any]:
    kinds = kind if isinstance(kind, tuple) else (kind,)

    def check(value: Any) -> Any:
        if type(value) not in kinds or not holds(value):  # True is no number here
            raise ValueError
        return value

    return check


def _kind(expected: str, read: Callable[[str], Any], check: Callable[[Any], Any]) -> Kind:
    return Kind(expected, lambda text: check(read(text)), check)


_SWITCHES = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCHES:
        raise ValueError
    return _SWITCHES[text.lower()]


def _choice(names: Sequence[str]) -> Kind:
    return _kind(f"one of {', '.join(names)}", str, _typed(str, lambda name: name in names))


def _names(given: Any) -> tuple[str, ...]:
    if type(given) is not list or not all(type(name) is str and name for name in given):
        raise ValueError
    return tuple(given)


TEXT = _kind("a text", str, _typed(str))
PORT = _kind("an integer from 0 to 65535", int, _typed(int, lambda n: 0 <= n <= 65535))
COUNT = _kind("a positive integer", int, _typed(int, lambda n: 0 < n < 1 << 63))
NUMBER = _kind("a positive number", float, _typed((int, float), lambda n: 0 < n < math.inf))
SWITCH = _kind("true or false", _switch, _typed(bool))
NAMES = _kind("a list of names", lambda text: [n.strip() for n in text.split(",") if n.strip()], _names)


@dataclass(frozen=True, slots=True)
class Setting:
    """``commands`` have its flag; files and variables are shared by all."""

    name: str
    kind: Kind
    default: Any
    what: str
    commands: tuple[str, ...] = ("serve", "worker")

    @property
    def flag(self) -> str:
        return "--" + self.name.replace(".", "-").replace("_", "-")

    @property
    def variable(self) -> str:
        return "TUNESMITH_" + self.name.replace(".", "_").upper()

    @property
    def attribute(self) -> str:
        """Of the parsed arguments."""
        return self.name.replace(".", "_")

    def shown(self, value: Any) -> str:
        """Without secrets."""
        if value is None:
            return "a file in your data folder" if self.name == "db" else "none"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return ", ".join(value) or "none"
        return without_password(value) if self.name == "db" else str(value)


_SERVER = ("serve",)
_WORKER = ("worker",)
_LIMITS = {
    "body_bytes": "bytes of a request",
    "upload_bytes": "bytes of an upload of records, unpacked",
    "upload_records": "records of an upload",
    "model_bytes": "bytes of a model",
    "requests_per_s": "requests a second of a key, or of an address without one",
    "requests_burst": "of these at once",
    "failures_per_s": "wrong keys a second of an address",
    "failures_burst": "of these at once",
    "jobs_per_key": "jobs of a key that are not done",
    "trials_per_day": "trials that a key may ask for or upload in a day",
    "bytes_per_day": "bytes that a key may upload in a day",
    "text_bytes": "bytes of a program's text",
    "threads": "threads of a job; the default is the number of cores",
    "program_flops": "operations of a program",
    "program_bytes": "bytes of all tensors of a program",
}


def _limits() -> Iterator[Setting]:
    defaults = Limits()
    for field in fields(Limits):
        default = getattr(defaults, field.name)
        kind = NUMBER if isinstance(default, float) else COUNT
        yield Setting(f"limits.{field.name}", kind, default, f"most {_LIMITS[field.name]}", _SERVER)


SETTINGS = (
    Setting("host", TEXT, "127.0.0.1", "address to listen on", _SERVER),
    Setting("port", PORT, 8700, "port to listen on; 0 is any free one", _SERVER),
    Setting("hosts", NAMES, (), "further names of the service, such as that of a proxy", _SERVER),
    Setting("require_key", SWITCH, False, "let nobody in without a key, on a loopback address too", _SERVER),
    Setting("jobs", SWITCH, True, "tune jobs in the server; otherwise workers do", _SERVER),
    Setting("db", TEXT, None, "URL of the database"),
    Setting("db_password_file", TEXT, "", "file that holds the password of the database"),
    Setting("log_level", _choice(LEVELS), "info", "least level of what is logged"),
    Setting("log_format", _choice(FORMATS), "text", "form of log lines"),
    Setting("event_days", NUMBER, 7.0, "days that events of jobs are kept"),
    Setting("lease_s", NUMBER, 60.0, "seconds until the job of a silent worker is given to another"),
    Setting("stop_s", NUMBER, 60.0, "seconds that a running job gets to finish its measurement at the end"),
    Setting("alive_file", TEXT, "", "file to touch as long as the worker works", _WORKER),
    *_limits(),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """A value, and where it comes from."""

    setting: Setting
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Configuration:
    held: tuple[Held, ...]

    def __getitem__(self, name: str) -> Any:
        return next(held.value for held in self.held if held.setting.name == name)

    def shown(self) -> list[tuple[str, str, str]]:
        """Name, value and origin of each setting, without secrets."""
        return [(held.setting.name, held.setting.shown(held.value), held.origin) for held in self.held]

    def settings(self) -> Settings:
        """Imports the tuner. Raises ``DatabaseUnavailable`` when the password cannot be read."""
        from tunesmith.cli.database import add_password
        from tunesmith.service import default_tools

        limits = {h.setting.name: h.value for h in self.held if h.setting.name.startswith("limits.")}
        return Settings(
            url=add_password(self["db"], self["db_password_file"]),
            tools=default_tools(),
            hosts=(*LOOPBACK, *self["hosts"]),
            limits=Limits(**{name.removeprefix("limits."): value for name, value in limits.items()}),
            require_key=self["require_key"],
            run_jobs=self["jobs"],
            lease_s=self["lease_s"],
            stop_s=self["stop_s"],
            event_days=self["event_days"],
            log_level=self["log_level"],
            log_format=self["log_format"],
            alive_file=self["alive_file"],
        )


def add_settings(parser: argparse.ArgumentParser, command: str) -> None:
    """The flags of a command, the file's, and that which shows what holds."""
    parser.add_argument("--config", metavar="FILE", help=f"default: ./{FILE_NAME}, else that of your user")
    parser.add_argument("--print-config", action="store_true", help="show what holds and why, and end")
    limits = parser.add_argument_group("limits of requests")
    for setting in SETTINGS:
        if command in setting.commands:
            _add_flag(limits if setting.name.startswith("limits.") else parser, setting)


def _add_flag(parser: "argparse._ActionsContainer", setting: Setting) -> None:
    words = f"{setting.what} (default: {setting.shown(setting.default)})".replace("%", "%%")
    if setting.name == "limits.threads":
        words = setting.what
    if setting.kind is SWITCH:
        parser.add_argument(
            setting.flag, dest=setting.attribute, action=argparse.BooleanOptionalAction, help=words
        )
        return
    metavar = setting.name.rpartition("_")[2].rpartition(".")[2].upper()
    parser.add_argument(setting.flag, dest=setting.attribute, metavar=metavar, help=words)


def configure(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Configuration:
    """What holds. Raises ``UsageError`` that names file, variable or flag, and what is expected."""
    unknown = _unknown_variables(environ)
    if unknown:
        raise UsageError(f"{unknown[0]} is no setting; {_near(unknown[0], [s.variable for s in SETTINGS])}")
    file = _file(args.config or environ.get("TUNESMITH_CONFIG"))
    given = {} if file is None else _read(file)
    return Configuration(tuple(_held(setting, args, environ, file, given) for setting in SETTINGS))


def _held(
    setting: Setting,
    args: argparse.Namespace,
    environ: Mapping[str, str],
    file: Path | None,
    given: Mapping[str, Any],
) -> Held:
    flag = getattr(args, setting.attribute, None)
    if isinstance(flag, bool):
        return Held(setting, flag, setting.flag)
    if flag is not None:
        return Held(setting, _value(setting, setting.kind.of_text, flag, setting.flag), setting.flag)
    if environ.get(setting.variable):
        text = environ[setting.variable]
        return Held(setting, _value(setting, setting.kind.of_text, text, setting.variable), setting.variable)
    if setting.name in given:
        where = f"{file}: {setting.name}"
        return Held(setting, _value(setting, setting.kind.of_toml, given[setting.name], where), str(file))
    return Held(setting, setting.default, "default")


def _value(setting: Setting, read: Callable[[Any], Any], given: Any, where: str) -> Any:
    try:
        return read(given)
    except ValueError:
        shown = "" if setting.name == "db" else f", not {given!r}"
        raise UsageError(f"{where} must be {setting.kind.expected}{shown}") from None


def _file(named: str | None) -> Path | None:
    if named:
        return Path(named)
    if Path(FILE_NAME).is_file():
        return Path(FILE_NAME)
    from platformdirs import user_config_path

    own = user_config_path("tunesmith") / FILE_NAME
    return own if own.is_file() else None


def _read(file: Path) -> dict[str, Any]:
    """Values by the settings' names."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as fault:
        raise UsageError(f"{file} cannot be read: {fault.strerror}") from fault
    except ValueError as fault:
        raise UsageError(f"{file} is no TOML: {fault}") from fault
    values = dict(_flat(document))
    names = [setting.name for setting in SETTINGS]
    for name in values:
        if name not in names:
            raise UsageError(f"{file}: unknown key {name}; {_near(name, names)}")
    return values


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Of those that can only be meant for settings: others of this beginning are other commands'."""
    known = {setting.variable for setting in SETTINGS}
    return [name for name in environ if name.startswith("TUNESMITH_LIMITS_") and name not in known]


def _near(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
