"""From what a user names (a program, a workload's hash, a record's id) to what the database knows of it."""

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunesmith.cli.database import database_url, open_database
from tunesmith.cli.errors import NotFoundError
from tunesmith.cli.sources import is_program, load_program
from tunesmith.db import Best, quick_best
from tunesmith.ir import Program, workload_hash
from tunesmith.measure import detect_target
from tunesmith.records import Record, Target

if TYPE_CHECKING:
    from tunesmith.tuning.near import Estimate

__all__ = ["Subject", "best_of", "near_of", "this_machine", "resolve"]

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{1,27}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Subject:
    """What was named. ``word`` is how the user said it; ``program`` or ``record`` is set if it named one."""

    word: str
    workload_hash: str
    program: Program | None = None
    record: Record | None = None


def resolve(word: str, db: str | None) -> Subject:
    """Raises ProgramError for a bad program, NotFoundError or the store's errors for an unknown id."""
    if is_program(word):
        program = load_program(word)
        return Subject(word, workload_hash(program), program=program)
    if _ID.fullmatch(word):
        with open_database(db) as store:
            record = store.get(word)
        return Subject(word, record.workload.hash, record=record)
    return Subject(word, word)


def this_machine(threads: int) -> Target:
    return detect_target(threads)


def best_of(subject: Subject, target: Target | None, db: str | None) -> Best:
    """Raises NotFoundError with the command that would change that."""
    found = quick_best(database_url(db), subject.workload_hash, target)
    if found is not None:
        return found
    if subject.program is None and subject.record is None:
        raise NotFoundError(
            f"{subject.word!r} is neither a program nor a workload with a working record;"
            " `tunesmith query` lists what is known"
        )
    raise NotFoundError(
        f"nothing is known yet of {subject.word} on this machine; to find it:"
        f" tunesmith tune {shlex.quote(subject.word)}"
    )


def near_of(subject: Subject, target: Target, db: str | None) -> "Estimate":
    """What records of other shapes say. Raises NotFoundError if there are none, or no program to derive
    schedules of."""
    from tunesmith.tuning.near import NothingNear, estimate

    if subject.program is None:
        raise NotFoundError(f"{subject.word!r} has no working record; --near needs the program itself")
    with open_database(db) as store:
        try:
            return estimate(subject.program, target, store)
        except NothingNear as error:
            hint = f"to tune it: tunesmith tune {shlex.quote(subject.word)}"
            raise NotFoundError(f"{error}; {hint}") from error
