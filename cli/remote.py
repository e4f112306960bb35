"""A service that does the work: which one, and what is shown while it does."""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunesmith.cli.errors import CommandError, UsageError
from tunesmith.cli.output import emit_json, format_gflops, format_percent, format_time, line, note
from tunesmith.cli.reasons import reason_text

if TYPE_CHECKING:
    from tunesmith.client import Client, JobEvent

__all__ = ["add_remote", "client_of", "follow", "print_job", "service_url", "url_words", "watch_command"]

_CODES = {"succeeded": 0, "stopped": 0, "failed": 1, "cancelled": 1}


def add_remote(parser: argparse.ArgumentParser) -> None:
    """``--url`` and ``--key-file``. A key itself is no argument: everybody sees those of processes."""
    parser.add_argument("--url", metavar="URL", help="ask a service (default: $TUNESMITH_URL)")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="holds the key; else $TUNESMITH_KEY")


def service_url(args: argparse.Namespace) -> str | None:
    """None stands for this machine. What the command line says counts before the environment. Raises
    UsageError when it names both a service and a database."""
    has_database = getattr(args, "db", None) is not None
    if args.url and has_database:
        raise UsageError("--url or --db, not both: a service has a database of its own")
    return args.url or (None if has_database else os.environ.get("TUNESMITH_URL")) or None


def url_words(args: argparse.Namespace) -> list[str]:
    """What a command has to say to reach the same service."""
    words = ["--url", args.url] if args.url else []
    return words + (["--key-file", str(args.key_file)] if args.key_file else [])


@contextmanager
def client_of(args: argparse.Namespace) -> Iterator["Client"]:
    """Raises UsageError when no service is named, or one that cannot be; an error says how to give a key."""
    url = service_url(args)
    if url is None:
        raise UsageError("which service? give --url http://HOST:8700, or set TUNESMITH_URL")

    from tunesmith.client import ServiceError, connect

    key = args.key_file.read_text().strip() if args.key_file else os.environ.get("TUNESMITH_KEY") or None
    try:
        client = connect(url, key=key)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with client:
        try:
            yield client
        except ServiceError as refused:
            if refused.status != 401:
                raise
            raise CommandError(f"{refused} Give it with --key-file FILE or TUNESMITH_KEY.") from refused


def follow(
    client: "Client",
    job_id: str,
    args: argparse.Namespace,
    *,
    quiet: bool = False,
    kernel: Sequence[str] = (),
) -> int:
    """Show a job until it has ended, then what came out; ``kernel`` are words that name it to ``apply``. An
    interruption leaves the job running."""
    try:
        for event in client.watch(job_id):
            if not quiet:
                _tell(event)
    except KeyboardInterrupt:
        note(f"not watching any more; the job goes on. To watch again: {watch_command(job_id, args)}")
        if args.json:
            emit_json({"error": {"type": "Interrupted", "message": "interrupted", "exit_code": 130}})
        return 130
    job = client.job(job_id)
    if args.json:
        emit_json(job)
    else:
        print_job(job)
        if kernel and job["progress"]["best"] is not None:
            command = shlex.join(["tunesmith", "apply", *kernel, *url_words(args)])
            line(f"next: {command} -o DIR   writes a shared library and its C header")
    return _CODES.get(job["state"], 1)


def watch_command(job_id: str, args: argparse.Namespace) -> str:
    return shlex.join(["tunesmith", "jobs", "watch", job_id, *url_words(args)])


def _tell(event: "JobEvent") -> None:
    data = event.data
    if event.kind == "best":
        text = f"trial {data['measured']}: {format_time(data['time_s'])}  {format_gflops(data['gflops'])}"
    elif event.kind == "state":
        asked = f", to be {data['requested']}" if data.get("requested") else ""
        text = data["state"] + asked + (f": {data['error']}" if data.get("error") else "")
    else:
        of = f"/{data['trials_total']}" if data.get("trials_total") else ""
        text = f"{data['phase']}: {data['trials']}{of} trials"
    with suppress(OSError):
        sys.stderr.write(f"{str(data.get('at', ''))[11:19]}  {text}\n")
        sys.stderr.flush()


def print_job(job: dict[str, Any]) -> None:
    progress = job["progress"]
    of = f"/{progress['trials_total']}" if progress["trials_total"] else ""
    asked = f", to be {job['requested']}" if job["requested"] else ""
    counts = f"{progress['trials']}{of} trials, {progress['failed']} failed"
    line(f"{job['name']}: {job['state']}{asked}, {counts}")
    stopped_by = (job.get("result") or {}).get("stopped_by")
    if stopped_by and job["state"] == "succeeded":
        line(f"stopped: {reason_text(stopped_by)}")
    best = progress["best"]
    if best is not None:
        figures = [format_time(best["time_s"]), format_gflops(best["gflops"])]
        if best.get("peak_fraction") is not None:
            figures.append(f"{format_percent(best['peak_fraction'])} of peak")
        if progress["untuned_s"]:
            figures.append(f"{progress['untuned_s'] / best['time_s']:.2f}× untuned")
        line(f"best {', '.join(figures)}")
        line(f"record {best['record']}")
    if progress["end_to_end_s"]:
        line(f"end to end {format_time(progress['end_to_end_s'])}")
    if job["error"]:
        line(f"error: {job['error']}")
    line(f"job {job['id']}, priority {job['priority']}, submitted {job['created_at'][:19].replace('T', ' ')}")
