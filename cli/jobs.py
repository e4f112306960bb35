"""`tunesmith jobs`: look after the jobs of a service."""

import argparse
import shlex
from itertools import islice
from typing import Any

from tunesmith.cli.commands import add_common, positive_int
from tunesmith.cli.output import emit_json, format_time, line, table
from tunesmith.cli.remote import add_remote, client_of, follow, print_job, url_words

__all__ = ["EXAMPLES", "SUMMARY", "arguments", "run"]

SUMMARY = """\
Jobs of a tuning service: list, look at, watch, pause, resume, stop (end it with what it has) or cancel (end
it at once). `tunesmith tune --url URL` submits one."""

EXAMPLES = (
    "tunesmith jobs ls --url http://tuner:8700 --json",
    "tunesmith jobs watch 0193e5b2-7c1f-7e0a-8a3b-5b0f2d8c9e11",
    "tunesmith jobs stop 0193e5b2-7c1f-7e0a-8a3b-5b0f2d8c9e11",
)

_ACTS = {
    "show": "progress, best and error of one job",
    "watch": "show events until the job has ended",
    "pause": "measure nothing new until it is resumed",
    "resume": "let a paused job go on",
    "stop": "end it with what it has",
    "cancel": "end it at once",
}
_STATES = ("queued", "running", "paused", "stopped", "cancelled", "succeeded", "failed")


def arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="act", required=True, metavar=f"ls|{'|'.join(_ACTS)}")
    ls = commands.add_parser("ls", help="list jobs, newest first")
    ls.add_argument("--state", choices=_STATES, help="only these")
    ls.add_argument("--limit", type=positive_int, default=50, metavar="N", help="default: 50")
    acts = [commands.add_parser(act, help=what) for act, what in _ACTS.items()]
    for command in acts:
        command.add_argument("job", metavar="JOB", help="its id")
    for command in (ls, *acts):
        add_remote(command)
        add_common(command, db=False)


def run(args: argparse.Namespace) -> int:
    with client_of(args) as client:
        if args.act == "ls":
            jobs = list(islice(client.jobs(state=args.state, limit=min(args.limit, 500)), args.limit))
            _list(jobs, args)
            return 0
        if args.act == "watch":
            client.job(args.job)  # a wrong id or URL is told at once, a service that goes away is waited for
            return follow(client, args.job, args)
        job = client.job(args.job) if args.act == "show" else getattr(client, args.act)(args.job)
    if args.json:
        emit_json(job)
    else:
        print_job(job)
    return 0


def _list(jobs: list[dict[str, Any]], args: argparse.Namespace) -> None:
    if args.json:
        emit_json({"items": jobs})
        return
    if not jobs:
        submit = shlex.join(["tunesmith", "tune", "SOURCE", *url_words(args)])
        line(f"no {args.state} jobs" if args.state else f"no jobs; `{submit}` submits one")
        return
    rows = []
    for job in jobs:
        progress, best = job["progress"], job["progress"]["best"]
        of = f"/{progress['trials_total']}" if progress["trials_total"] else ""
        best_s = best["time_s"] if best else progress["end_to_end_s"]
        when = job["created_at"][:16].replace("T", " ")
        trials = f"{progress['trials']}{of}"
        rows.append((job["id"], job["state"], job["name"], trials, format_time(best_s), when))
    table(("job", "state", "name", "trials", "best", "submitted"), rows, right=(3, 4))
