"""`tunesmith serve`: the HTTP service with its tuner in one process."""

import argparse
import sys

from tunesmith.cli.commands import add_common
from tunesmith.cli.configuration import Configuration, add_settings, configure
from tunesmith.cli.output import emit_json, table

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run", "show"]

SUMMARY = """\
Run the HTTP service: jobs, records, best schedules and artifacts. Jobs are tuned on this machine, one at a
time. On another address than a loopback one it asks for a key; `tunesmith keys create` makes one.
Every flag can stand in the environment (TUNESMITH_PORT for --port) or in tunesmith.toml (port = …)."""

EXAMPLES = (
    "tunesmith serve",
    "tunesmith serve --port 9000 --db sqlite:////srv/tunesmith.db",
    "tunesmith serve --no-jobs --log-format json --config /etc/tunesmith.toml",
    "tunesmith serve --print-config --json",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "serve")
    add_common(parser, db=False)


def run(args: argparse.Namespace) -> int:
    configuration = configure(args)
    if args.print_config:
        return show(configuration, as_json=args.json)
    from tunesmith.service import serve

    on_listen = _tell if args.json else lambda _: None
    serve(configuration.settings(), configuration["host"], configuration["port"], on_listen=on_listen)
    return 0


def show(configuration: Configuration, *, as_json: bool) -> int:
    """What holds, and where it comes from."""
    shown = configuration.shown()
    if as_json:
        emit_json({"settings": [{"name": n, "value": value, "from": origin} for n, value, origin in shown]})
    else:
        table(("setting", "value", "from"), shown)
    return 0


def _tell(url: str) -> None:
    """For programs that start a server, with ``--port 0`` on any free port."""
    emit_json({"url": url})
    sys.stdout.flush()
