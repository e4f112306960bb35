"""The programs of a model and how often it calls each, from words and from a file."""

import json
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunesmith.cli.errors import UsageError
from tunesmith.cli.sources import LocatedError, is_operator, load_program
from tunesmith.ir.errors import ProgramError
from tunesmith.tuning.types import WeightedTask

__all__ = ["load_tasks"]

_MEMBERS = {"source", "weight"}


def load_tasks(
    sources: Sequence[str], weights: Sequence[float] | None, file: str | None
) -> list[WeightedTask]:
    """Those of the SOURCEs, then those of the file. Raises UsageError, LocatedError."""
    if weights is not None and len(weights) != len(sources):
        raise UsageError(f"{len(weights)} --weights for {len(sources)} SOURCEs; those of a file stand in it")
    if list(sources).count("-") > 1:
        raise UsageError("standard input is one program: name `-` once")
    each = weights or [1.0] * len(sources)
    tasks = [WeightedTask(load_program(s), w, s) for s, w in zip(sources, each, strict=True)]
    return tasks if file is None else tasks + _from_file(Path(file))


def _from_file(path: Path) -> list[WeightedTask]:
    entries = _entries(path)
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path} holds no tasks: in TOML each is a [[task]], in JSON all are one list")
    return [_task(entry, f"{path}, task {number}", path.parent) for number, entry in enumerate(entries, 1)]


def _entries(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text).get("task")
    except FileNotFoundError:
        raise UsageError(f"no file {path}") from None
    except ValueError as error:  # of JSON, of TOML, of UTF-8
        raise UsageError(f"{path}: {error}") from None


def _task(entry: Any, where: str, folder: Path) -> WeightedTask:
    if not isinstance(entry, dict) or not isinstance(entry.get("source"), str):
        raise UsageError(f"{where}: give it a source, such as source = 'matmul(512,512,512)'")
    unknown = sorted(entry.keys() - _MEMBERS)
    if unknown:
        raise UsageError(f"{where}: no {', '.join(unknown)} is known; there are source and weight")
    source, weight = entry["source"], entry.get("weight", 1)
    if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 < weight < math.inf:
        raise UsageError(f"{where}: a weight must be a positive number, not {weight!r}")
    try:
        return WeightedTask(load_program(_beside(source, folder)), weight, source)
    except LocatedError:  # says where it is
        raise
    except (UsageError, ProgramError) as error:
        raise UsageError(f"{where}: {error}") from None


def _beside(source: str, folder: Path) -> str:
    """Paths of a file of tasks are relative to it."""
    return source if is_operator(source) else str(folder / source)
