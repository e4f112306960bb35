"""A good schedule with no measurement at all: what the cost model ranks first."""

import numpy as np

from tunesmith.codegen import Binary, build
from tunesmith.codegen.llvm import BuildError
from tunesmith.costmodel import Ranker
from tunesmith.ir import Program
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Schedule
from tunesmith.search import Search, derive
from tunesmith.search.default import default_schedule
from tunesmith.tuning.pretrained import pretrained

__all__ = ["guess"]


def guess(program: Program, target: Target, seed: int = 0) -> tuple[Schedule, Binary]:
    """The best predicted schedule that builds, and its code; the default schedule if none does. ``seed``
    is that of the candidates that are looked at."""
    space = derive(program, target)
    ranker = Ranker(program, space.sketches, target, pretrained=pretrained().model)
    search = Search(space, ranker, np.random.default_rng(seed))
    for candidate in search.propose(4):
        schedule = search.schedule(candidate)
        try:
            return schedule, build(program, schedule, target)
        except (IllegalStep, BuildError):
            continue
    schedule = default_schedule(program, target)
    return schedule, build(program, schedule, target)
