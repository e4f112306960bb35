"""`tunesmith keys`: who may use the service, and for what."""

import argparse
import datetime as dt
from typing import TYPE_CHECKING, Any

from tunesmith.cli.commands import add_common, comma_list, positive_int
from tunesmith.cli.database import open_database
from tunesmith.cli.output import emit_json, line, note, table
from tunesmith.cli.spans import span
from tunesmith.db.access import ApiKey, Scope

if TYPE_CHECKING:
    from tunesmith.db import Store

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Keys of the HTTP service, in its database. `create` shows a key's secret once; send it as
`Authorization: Bearer SECRET`. Scopes: read (records, best, models, jobs of one's own), submit (jobs),
measure (upload measurements and models), admin (all of these, everybody's jobs, and keys)."""

EXAMPLES = (
    "tunesmith keys create ci --scope read,submit --expires 90d",
    "tunesmith keys ls --json",
    "tunesmith keys revoke ci",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="act", required=True, metavar="create|ls|revoke")
    create = commands.add_parser("create", help="make a key, and show its secret once")
    create.add_argument("name", help="what it is for, or whose it is")
    create.add_argument(
        "--scope", type=_scopes, default=(Scope.READ, Scope.SUBMIT), metavar="LIST",
        help="of read, submit, measure, admin (default: read,submit)",
    )  # fmt: skip
    create.add_argument("--expires", type=_life, metavar="TIME", help="such as 90d, 12h or never (default)")
    ls = commands.add_parser("ls", help="list keys, newest first")
    ls.add_argument("--limit", type=positive_int, default=100, metavar="N", help="default: 100")
    revoke = commands.add_parser("revoke", help="make a key unusable for good")
    revoke.add_argument("key", help="its name, prefix or id")
    for command in (create, ls, revoke):
        add_common(command)


def run(args: argparse.Namespace) -> int:
    with open_database(args.db, create=args.act == "create") as store:
        _ACTS[args.act](store, args)
    return 0


def _scopes(text: str) -> tuple[Scope, ...]:
    names = comma_list(text)
    unknown = [name for name in names if name not in set(Scope)]
    if unknown or not names:
        wrong = ", ".join(unknown) or "nothing"
        raise argparse.ArgumentTypeError(f"scopes are {', '.join(Scope)}, not {wrong}")
    return tuple(Scope(name) for name in names)


def _life(text: str) -> dt.timedelta | None:
    return None if text == "never" else span(text)


def _create(store: "Store", args: argparse.Namespace) -> None:
    expires_at = args.expires and dt.datetime.now(dt.UTC) + args.expires
    key, secret = store.keys.create(args.name, args.scope, expires_at=expires_at)
    if args.json:
        emit_json({**_as_json(key), "secret": secret})
        return
    line(secret)
    note(f"{_words(key)}; it is shown this once. Send it as `Authorization: Bearer …`")


def _ls(store: "Store", args: argparse.Namespace) -> None:
    page = store.keys.list(limit=args.limit)
    if args.json:
        emit_json({"keys": [_as_json(key) for key in page.items], "next_cursor": page.next_cursor})
        return
    rows = [
        (key.name, f"{key.prefix}…", ", ".join(sorted(key.scopes)), _when(key.created_at), _end(key),
         _when(key.last_used_at))
        for key in page.items
    ]  # fmt: skip
    if rows:
        table(("name", "begins", "scopes", "made", "ends", "last used"), rows)
    else:
        line("no keys; `tunesmith keys create NAME` makes one")


def _revoke(store: "Store", args: argparse.Namespace) -> None:
    key = store.keys.revoke(args.key)
    if args.json:
        emit_json(_as_json(key))
    else:
        line(f"revoked {_words(key)}; a running service knows it within five seconds")


_ACTS = {"create": _create, "ls": _ls, "revoke": _revoke}


def _words(key: ApiKey) -> str:
    return f"key {key.name} ({key.prefix}…, {', '.join(sorted(key.scopes))})"


def _when(at: dt.datetime | None) -> str:
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M}"


def _end(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_when(key.revoked_at)}"
    return _when(key.expires_at)


def _as_json(key: ApiKey) -> dict[str, Any]:
    times = ("created_at", "expires_at", "last_used_at", "revoked_at")
    values = {name: getattr(key, name) for name in times}
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": sorted(key.scopes),
        **{name: value and value.isoformat() for name, value in values.items()},
    }
