"""`tunesmith db import`: what a file is, and what became of its lines."""

from pathlib import Path
from typing import Any

from tunesmith.cli.files import read_lines
from tunesmith.cli.output import emit_json, line, note
from tunesmith.db import Store
from tunesmith.service.transfer import Imported, Importer

__all__ = ["run_import"]


def run_import(store: Store, name: str, source: str | None, *, as_json: bool) -> int:
    """Returns the exit code: failure when a line that should have been a record was none."""
    importer = Importer(store, source)
    for _ in importer.take(read_lines(_log_of(name))):
        pass
    done = importer.done
    _tell(done, as_json)
    return 1 if done.refused else 0


def _log_of(name: str) -> str:
    """MetaSchedule's database is a folder."""
    log = Path(name) / "database_tuning_record.json"
    return str(log) if name != "-" and log.is_file() else name


def _tell(done: Imported, as_json: bool) -> None:
    refused = done.refused.total()
    if as_json:
        examples: list[Any] = [{"line": number, "reason": reason} for number, reason in done.examples]
        emit_json(
            {
                "new": done.new, "known": done.known, "races": done.races, "refused": refused,
                "reasons": dict(done.refused), "examples": examples, "observations": done.observations,
                "nearest": done.nearest, "unmapped": dict(done.unmapped),
            }
        )  # fmt: skip
        return
    line(f"{done.new} new records, {done.known} known before, {done.races} races; {refused} lines refused")
    for reason, count in done.refused.most_common():
        line(f"  {count} × {reason}")
    if done.observations or done.unmapped:
        exact = done.observations - done.nearest
        line(f"{done.observations} observations ({exact} exact, {done.nearest} nearest)")
        line(f"{done.unmapped.total()} lines of the log say nothing here")
    for reason, count in done.unmapped.most_common():
        line(f"  {count} × {reason}")
    for number, reason in done.examples:
        note(f"line {number}: {reason}")
