"""`tunesmith worker`: tunes jobs of a database that a server, elsewhere or here, takes them into."""

import argparse

from tunesmith.cli.commands import add_common
from tunesmith.cli.configuration import add_settings, configure
from tunesmith.cli.output import emit_json
from tunesmith.cli.serve import show

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Tune the jobs of a database, one at a time, until SIGTERM or Ctrl-C; the running job is then left to others.
Workers on several machines share a PostgreSQL database; one on the machine of the server may share its SQLite
file. What `tunesmith serve` reads, it reads too: flags, TUNESMITH_… and tunesmith.toml."""

EXAMPLES = (
    "tunesmith worker --db postgresql://tunesmith@db.example.org/tunesmith",
    "tunesmith worker --config /etc/tunesmith.toml --log-format json",
    "tunesmith worker --print-config --json",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "worker")
    add_common(parser, db=False)


def run(args: argparse.Namespace) -> int:
    configuration = configure(args)
    if args.print_config:
        return show(configuration, as_json=args.json)
    from tunesmith.service import work

    code = work(configuration.settings())
    if args.json:
        emit_json({"stopped": code == 0})
    return code
