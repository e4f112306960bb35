"""`tunesmith serve`: the HTTP service with its tuner in one process."""

import argparse
import sys

from tunesmith.cli.commands import add_common
from tunesmith.cli.database import database_url
from tunesmith.cli.output import emit_json
from tunesmith.db import default_url

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Run the HTTP service: jobs, records, best schedules and artifacts. Jobs are tuned on this machine, one at a
time. On another address than a loopback one it asks for a key; `tunesmith keys create` makes one."""

EXAMPLES = (
    "tunesmith serve",
    "tunesmith serve --port 9000 --db sqlite:////srv/tunesmith.db",
)

def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8700, help="default: 8700")
    parser.add_argument(
        "--require-key", action="store_true", help="let nobody in without a key, on a loopback address too"
    )
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
    from tunesmith.service import serve

    url = database_url(args.db) or default_url()
    on_listen = _tell if args.json else lambda _: None
    serve(args.host, args.port, url, require_key=args.require_key, on_listen=on_listen)
    return 0
