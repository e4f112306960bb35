"""`tunesmith serve`: the HTTP service with its tuner in one process."""

import argparse
import sys

from tunesmith.cli.commands import add_common
from tunesmith.cli.database import database_url
from tunesmith.cli.output import emit_json, note
from tunesmith.db import default_url

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Run the HTTP service: jobs, records, best schedules and artifacts. Jobs are tuned on this machine, one at a
time."""

EXAMPLES = (
    "tunesmith serve",
    "tunesmith serve --port 9000 --db sqlite:////srv/tunesmith.db",
)

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8700, help="default: 8700")
    add_common(parser)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; choose 1 to 65535")
    return int(text)


def _tell(url: str) -> None:
    """For programs that start a server, with ``--port 0`` on any free port."""
    emit_json({"url": url})
    sys.stdout.flush()


def run(args: argparse.Namespace) -> int:
    if args.host not in _LOOPBACK:
        note(f"warning: whoever reaches {args.host}:{args.port} can run jobs here; there are no keys yet")
    from tunesmith.service import serve

    url = database_url(args.db) or default_url()
    serve(args.host, args.port, url, on_listen=_tell if args.json else lambda _: None)
    return 0
