"""How well predictions rank candidates: measured on tasks, never across them.

TenSet's measures (L. Zheng et al., NeurIPS Datasets 2021): pairwise accuracy, and the quality of the best
among the first k predicted; and what predicted seconds are worth as seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Calibration", "Scores", "calibration", "pairwise_accuracy", "quality", "scores"]

Array = NDArray[np.float64]


def pairwise_accuracy(predicted: Array, measured: Array) -> float:
    """Share of pairs with different measured times that are predicted in the right order; those predicted
    to be equal count half. NaN without such a pair."""
    i, j = np.triu_indices(len(measured), 1)
    real = np.sign(measured[i] - measured[j])
    guess = np.sign(predicted[i] - predicted[j])
    told = real != 0
    if not told.any():
        return float("nan")
    return float(np.where(guess == 0, 0.5, guess == real)[told].mean())


def quality(predicted: Array, measured: Array, k: int) -> float:
    """Best measured time over the best among the ``k`` first predicted: 1 when the best is among them. Of
    candidates predicted to be equal, the slowest come first: no luck."""
    order = np.lexsort((-measured, predicted))
    return float(measured.min() / measured[order[:k]].min())


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of predicted seconds over all tasks, as factors: ``bias`` is the median of predicted over measured,
    ``error`` the median of how far they are apart (1.2: half are within 20 %)."""

    bias: float
    error: float


def calibration(predicted: Array, measured: Array) -> Calibration:
    log = np.log(predicted / measured)
    return Calibration(float(np.exp(np.median(log))), float(np.exp(np.median(np.abs(log)))))


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over tasks, each counting the same; ``calibration`` over all candidates."""

    tasks: int
    candidates: int
    pairwise: float
    top1: float
    top5: float
    calibration: Calibration


def scores(tasks: Sequence[tuple[Array, Array]]) -> Scores:
    """Of tasks as (predicted, measured) seconds; there must be one at least."""
    pairwise = np.array([pairwise_accuracy(p, m) for p, m in tasks])
    return Scores(
        tasks=len(tasks),
        candidates=sum(len(m) for _, m in tasks),
        pairwise=float(np.nanmean(pairwise)) if np.isfinite(pairwise).any() else float("nan"),
        top1=float(np.mean([quality(p, m, 1) for p, m in tasks])),
        top5=float(np.mean([quality(p, m, 5) for p, m in tasks])),
        calibration=calibration(np.concatenate([p for p, _ in tasks]), np.concatenate([m for _, m in tasks])),
    )
