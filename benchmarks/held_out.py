"""Which workloads the shipped model has not seen: its training tasks can be drawn again."""

from functools import lru_cache
from itertools import islice

from tunesmith.costmodel import Model
from tunesmith.ir import Program
from tunesmith.tuning.pretrained import pretrained
from tunesmith.tuning.tasks import draw_tasks
from tunesmith.tuning.workload import workload_of

__all__ = ["seen_in_training"]

_SEED = 0  # of the collection
_MARGIN = 1.2  # tasks drawn for each that the model says it was trained on: some had too few records


def seen_in_training(program: Program) -> bool:
    """Whether the program may have been among the tasks of the model in use."""
    model = pretrained().model
    return model is not None and workload_of(program)[0].hash in _hashes(_drawn(model))


def _drawn(model: Model) -> int:
    return round(_MARGIN * int(model.about.get("tasks", 0)))


@lru_cache
def _hashes(count: int) -> frozenset[str]:
    return frozenset(workload_of(t.program)[0].hash for t in islice(draw_tasks(_SEED), count))
