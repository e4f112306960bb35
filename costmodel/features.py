"""Features of whole populations: closed forms of the knobs, with the machine's figures beside them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.prior import StageCost, stage_cost
from tunesmith.costmodel.structure import Array, knob_values, shapes, structure
from tunesmith.ir.program import Program
from tunesmith.records import Target
from tunesmith.schedule import Sketch, State

__all__ = ["NAMES", "VERSION", "Features", "features", "features_of"]

VERSION = 1
_TERMS = ("arithmetic", "loads", "stores", "latency", "spills", "overhead")
_LEVELS = ("l1", "l2", "l3")
_FIGURES = ("loads_per_fma", "accumulators", "unrolled", "iterations", "parallel")
NAMES: tuple[str, ...] = (
    "prior",
    *(f"sum.{t}" for t in (*_TERMS, *_LEVELS)),
    *(f"main.{t}" for t in (*_TERMS, *_LEVELS, *_FIGURES)),
    "main.share",
    "register_fill",
    "stages",
)


@dataclass(frozen=True)
class Features:
    """``matrix``: (candidates, len(NAMES)); times enter as logarithms relative to the prior.

    ``prior_s``: the estimated seconds of each candidate. ``main``: index of the stage that dominates.
    """

    matrix: NDArray[np.float32]
    prior_s: Array


def features(program: Program, sketch: Sketch, population: NDArray[np.int64], target: Target) -> Features:
    """Features and prior of every candidate (row of knob indices) of one sketch."""
    return features_of(structure(program, sketch), sketch, population, target)


def features_of(state: State, sketch: Sketch, population: NDArray[np.int64], target: Target) -> Features:
    """The same, given the sketch's structure, which does not change between calls."""
    machine = Machine.of(target, state.program.stages[-1].dtype)
    values, count = knob_values(sketch, population), len(population)
    parts = [s for s in shapes(state, values, count) if not s.prepare]
    costs = [stage_cost(s, machine) for s in parts]
    times = np.stack([np.broadcast_to(c.time, count) for c in costs])
    prior = times.sum(axis=0)
    main = int(np.argmax(np.median(times, axis=1)))
    columns = [np.log(prior)]
    columns += [
        _relative(np.sum([np.broadcast_to(_terms(c)[i], count) for c in costs], axis=0), prior)
        for i in range(len(_TERMS) + len(_LEVELS))
    ]
    columns += [_relative(t, prior) for t in _terms(costs[main])]
    columns += [np.log1p(getattr(costs[main], f)) for f in _FIGURES]
    columns += [
        times[main] / prior,
        costs[main].accumulators / machine.registers,
        np.full(count, float(len(parts))),
    ]
    matrix = np.stack([np.broadcast_to(c, count) for c in columns], axis=1).astype(np.float32)
    return Features(matrix, np.asarray(prior))


def _terms(cost: StageCost) -> list[Array]:
    return [*(getattr(cost, t) for t in _TERMS), *cost.levels]


def _relative(term: Array, prior: Array) -> Array:
    out: Array = np.log(np.maximum(term, 1e-12) / prior)
    return np.maximum(out, -12.0)
