"""From what a user names (a program, a workload's hash, a record's id) to what is known of it."""

import re
import shlex
from dataclasses import dataclass

from tunesmith.cli.errors import NotFoundError
from tunesmith.cli.known import Known, NothingSuggested, Suggestion
from tunesmith.cli.sources import is_program, load_program
from tunesmith.db import Best
from tunesmith.ir import Program, workload_hash
from tunesmith.measure import detect_target
from tunesmith.records import Record, Target

__all__ = ["Subject", "best_of", "near_of", "this_machine", "resolve"]

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{1,27}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Subject:
    """What was named. ``word`` is how the user said it; ``program`` or ``record`` is set if it named one."""

    word: str
    workload_hash: str
    program: Program | None = None
    record: Record | None = None


def resolve(word: str, known: Known) -> Subject:
    """Raises ProgramError for a bad program, an error of exit code 3 for an unknown id."""
    if is_program(word):
        program = load_program(word)
        return Subject(word, workload_hash(program), program=program)
    if _ID.fullmatch(word):
        record = known.record(word)
        return Subject(word, record.workload.hash, record=record)
    return Subject(word, word)


def this_machine(threads: int) -> Target:
    return detect_target(threads)


def best_of(subject: Subject, target: Target, known: Known) -> Best:
    """Raises NotFoundError with the command that would change that."""
    found = known.best(subject.workload_hash, target)
    if found is not None:
        return found
    if subject.program is None and subject.record is None:
        raise NotFoundError(
            f"{subject.word!r} is neither a program nor a workload with a working record;"
            f" `{_command('query', known)}` lists what is known"
        )
    tune = _command("tune", known, subject.word)
    if known.url is not None:
        who = f"{known.url} knows nothing yet of {subject.word} for this machine"
        raise NotFoundError(f"{who}; to find it: {tune}")
    raise NotFoundError(f"nothing is known yet of {subject.word} on this machine; to find it: {tune}")


def near_of(subject: Subject, target: Target, known: Known) -> Suggestion:
    """What records of other shapes say. Raises NotFoundError if there are none, or no program to derive
    schedules of."""
    if subject.program is None:
        raise NotFoundError(f"{subject.word!r} has no working record; --near needs the program itself")
    try:
        return known.near(subject.program, target)
    except NothingSuggested as error:
        raise NotFoundError(f"{error}; to tune it: {_command('tune', known, subject.word)}") from error


def _command(name: str, known: Known, *words: str) -> str:
    return shlex.join(["tunesmith", name, *words, *known.words])
