"""Features of whole populations: closed forms of the knobs, with the machine's and the task's figures beside
them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.columns import COUNTS, NAMES, SHARES, TIMES
from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.structure import Shaper, knob_values, structure
from tunesmith.costmodel.view import View, view
from tunesmith.ir.program import Program
from tunesmith.records import Target
from tunesmith.schedule import Sketch, State

__all__ = ["NAMES", "VERSION", "Features", "features", "features_of"]

VERSION = 2
_LEAST = -12.0  # of the logarithm of a time relative to the prior
_TINY = 1e-30
_APART = 16  # numbers between rows, lest they all map to one set of the first cache


@dataclass(frozen=True)
class Features:
    """``matrix``: (candidates, len(NAMES)); ``prior_s``: the estimated seconds of each candidate."""

    matrix: NDArray[np.float32]
    prior_s: NDArray[np.float64]


def features(program: Program, sketch: Sketch, population: NDArray[np.int64], target: Target) -> Features:
    """Features and prior of every candidate (row of knob indices) of one sketch."""
    return features_of(structure(program, sketch), sketch, population, target)


def features_of(state: State, sketch: Sketch, population: NDArray[np.int64], target: Target) -> Features:
    """The same, given the sketch's structure, which does not change between calls."""
    machine = Machine.of(target, state.program.stages[-1].dtype)
    seen = view(Shaper(state, knob_values(sketch, population)), machine)
    prior = np.array(np.broadcast_to(seen.prior, len(population)))
    rows = _rows(seen, prior)
    return Features(np.ascontiguousarray(rows.T), prior)


def _rows(seen: View, prior: NDArray[np.float64]) -> NDArray[np.float32]:
    """The transposed matrix: columns are rows, which are written at once."""
    rows = np.empty((len(NAMES), len(prior) + _APART), dtype=np.float32)[:, : len(prior)]
    rows[0] = np.log(prior)
    for row, column in zip(rows[1:], (*TIMES.values(), *COUNTS.values(), *SHARES.values()), strict=True):
        row[:] = column(seen)
    times, counts = rows[1 : 1 + len(TIMES)], rows[1 + len(TIMES) : 1 + len(TIMES) + len(COUNTS)]
    np.log(np.maximum(times, _TINY, out=times), out=times)
    np.maximum(np.subtract(times, rows[0], out=times), _LEAST, out=times)
    np.log(np.add(counts, 1, out=counts), out=counts)
    return rows
