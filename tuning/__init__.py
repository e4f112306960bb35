"""The whole act of tuning, and kernels that use its results. Parts are imported when first asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tunesmith.tuning.api import KernelFunction, kernel, load
    from tunesmith.tuning.artifacts import artifact, describe
    from tunesmith.tuning.collection import CollectOptions, CollectResult, TaskDone, collect
    from tunesmith.tuning.dataset import Dataset, load_dataset
    from tunesmith.tuning.explanation import Explained, explain_program, explain_record
    from tunesmith.tuning.kernel import Kernel
    from tunesmith.tuning.many import merge_tasks, tune_many
    from tunesmith.tuning.near import Estimate
    from tunesmith.tuning.tasks import Task, draw_tasks
    from tunesmith.tuning.tuner import tune
    from tunesmith.tuning.types import (
        Event,
        Halt,
        ManyEvent,
        ManyObserver,
        ManyResult,
        Observer,
        StoppedBy,
        TuneOptions,
        TuneResult,
        WeightedTask,
    )
    from tunesmith.tuning.workload import workload_of

__all__ = [
    "CollectOptions",
    "CollectResult",
    "Dataset",
    "Estimate",
    "Event",
    "Explained",
    "Halt",
    "Kernel",
    "KernelFunction",
    "ManyEvent",
    "ManyObserver",
    "ManyResult",
    "Observer",
    "StoppedBy",
    "Task",
    "TaskDone",
    "TuneOptions",
    "TuneResult",
    "WeightedTask",
    "artifact",
    "collect",
    "describe",
    "draw_tasks",
    "explain_program",
    "explain_record",
    "kernel",
    "load",
    "load_dataset",
    "merge_tasks",
    "tune",
    "tune_many",
    "workload_of",
]

_HOMES = {
    "Event": "types", "Halt": "types", "Observer": "types", "StoppedBy": "types",
    "TuneOptions": "types", "TuneResult": "types", "WeightedTask": "types",
    "ManyEvent": "types", "ManyObserver": "types", "ManyResult": "types",
    "merge_tasks": "many", "tune_many": "many",
    "Kernel": "kernel", "KernelFunction": "api", "kernel": "api", "load": "api",
    "artifact": "artifacts", "describe": "artifacts", "tune": "tuner", "workload_of": "workload",
    "CollectOptions": "collection", "CollectResult": "collection", "TaskDone": "collection",
    "collect": "collection", "Dataset": "dataset", "load_dataset": "dataset",
    "Estimate": "near", "Task": "tasks", "draw_tasks": "tasks",
    "Explained": "explanation", "explain_program": "explanation", "explain_record": "explanation",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
