"""Requests for jobs: held against the limits, and made what the database keeps."""

from typing import Any

from fastapi.exceptions import RequestValidationError

from tunesmith.db import JobSpec, TaskSpec
from tunesmith.service.programs import read_workload
from tunesmith.service.schemas import JobRequest
from tunesmith.service.settings import Limits
from tunesmith.service.tools import Tools

__all__ = ["DEFAULT_TRIALS", "job_spec"]

DEFAULT_TRIALS = 64


def job_spec(request: JobRequest, tools: Tools, limits: Limits) -> JobSpec:
    """Raises ``ProgramError`` for a text that is no program or too large, ``RequestValidationError`` for
    numbers that do not fit this machine or each other."""
    if request.threads > limits.threads:
        raise _invalid("threads", f"this machine has {limits.threads} cores for it", "less_than_equal")
    tasks = _tasks(request, tools, limits)
    options = _options(request, len(tasks))
    trials: int | None = options["trials"]
    if trials is not None and trials < len(tasks):
        raise _invalid("trials", f"there are {len(tasks)} tasks; each needs one", "greater_than_equal")
    parts = {"program", "operator", "tasks"}
    return JobSpec(
        workload=tasks[0].workload,
        source=request.model_dump(include=parts, exclude_none=True),
        options=options,
        trials=trials,
        seed=request.seed,
        kind="tune" if request.tasks is None else "tune_many",
        tasks=tuple(tasks),
        priority=request.priority,
        measures=None if request.fresh else f"{request.threads} {request.cache}",
    )


def _tasks(request: JobRequest, tools: Tools, limits: Limits) -> list[TaskSpec]:
    """Each workload once, with all its weight, as the tuner sees them too."""
    if request.tasks is None:
        source = request.model_dump(include={"program", "operator"}, exclude_none=True)
        workload = read_workload(tools, limits, source)
        return [TaskSpec(workload, workload.name)]
    merged: dict[str, TaskSpec] = {}
    for task in request.tasks:
        source = task.model_dump(include={"program", "operator"}, exclude_none=True)
        workload = read_workload(tools, limits, source)
        known = merged.get(workload.hash)
        name, weight = task.name or workload.name, task.weight
        if known is not None:
            name, weight = known.name, known.weight + weight
        merged[workload.hash] = TaskSpec(workload, name, weight)
    return list(merged.values())


def _options(request: JobRequest, tasks: int) -> dict[str, Any]:
    unlimited = request.trials is None and request.seconds is not None
    return {
        "trials": None if unlimited else request.trials or DEFAULT_TRIALS * tasks,
        "seconds": request.seconds,
        "threads": request.threads,
        "seed": request.seed,
        "fresh": request.fresh,
        "cache": request.cache,
    }


def _invalid(name: str, reason: str, kind: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", name), "msg": reason, "type": kind}])
