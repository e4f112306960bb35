"""Training of a pretrained model: what the prior gets wrong within tasks, over many tasks at once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.evaluation import Scores, scores
from tunesmith.costmodel.model import Model

__all__ = ["Objective", "Recipe", "Samples", "evaluate", "evaluate_prior", "held_out", "train"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """Measured candidates of one workload on one target: features, the prior's seconds, measured seconds."""

    workload: str
    family: str
    matrix: NDArray[np.float32]
    prior_s: Array
    seconds: Array

    @property
    def residual(self) -> Array:
        """log(seconds / prior)."""
        out: Array = np.log(self.seconds / self.prior_s)
        return out


class Objective(StrEnum):
    """``within``: squared error with a constant of each task left free. ``pairs``: the order of pairs."""

    WITHIN = "within"
    PAIRS = "pairs"


@dataclass(frozen=True, slots=True)
class Recipe:
    """``stress``: a candidate weighs (best / its seconds) ** stress; each task weighs as its candidates do on
    average."""

    seed: int = 0
    objective: Objective = Objective.WITHIN
    rounds: int = 300
    depth: int = 6
    eta: float = 0.05
    least_weight: float = 8.0
    smoothing: float = 4.0
    rows: float = 0.7
    columns: float = 0.6
    stress: float = 0.5


def train(tasks: Sequence[Samples], recipe: Recipe, about: dict[str, Any] | None = None) -> Model:
    """A model of all tasks; deterministic for the same tasks in the same order. ``about`` adds to what the
    model says of itself. ValueError without tasks."""
    if not tasks:
        raise ValueError("nothing to train on")
    booster = _boost(tasks, recipe)
    raw = [np.asarray(booster.inplace_predict(t.matrix, predict_type="margin"), float) for t in tasks]
    scale = 1.0 if recipe.objective is Objective.WITHIN else _scale(tasks, raw)
    # Of the constants of all tasks, the middle one: for a new task that is the best guess.
    offset = float(np.median([np.median(t.residual - scale * r) for t, r in zip(tasks, raw, strict=True)]))
    families = Counter(t.family for t in tasks)
    facts = {
        "recipe": asdict(recipe),
        "tasks": len(tasks),
        "records": sum(len(t.seconds) for t in tasks),
        "families": dict(sorted(families.items())),
    }
    return Model(booster, scale, offset, {**facts, **(about or {})})


def _boost(tasks: Sequence[Samples], recipe: Recipe) -> Any:
    import xgboost

    groups = np.repeat(np.arange(len(tasks)), [len(t.seconds) for t in tasks])
    label = np.concatenate([t.residual - np.median(t.residual) for t in tasks])
    weight = np.concatenate([_weights(t, recipe.stress) for t in tasks])
    params = {
        "tree_method": "hist",
        "max_depth": recipe.depth,
        "eta": recipe.eta,
        "min_child_weight": recipe.least_weight,
        "lambda": recipe.smoothing,
        "subsample": recipe.rows,
        "colsample_bytree": recipe.columns,
        "base_score": 0.0,
        "seed": recipe.seed,
        "nthread": 1,
        "verbosity": 0,
        "disable_default_eval_metric": 1,
    }
    matrix = np.concatenate([t.matrix for t in tasks])
    if recipe.objective is Objective.PAIRS:
        data = xgboost.DMatrix(matrix, label=_ranks(tasks), qid=groups)
        params |= {"objective": "rank:pairwise", "lambdarank_pair_method": "mean"}
        params |= {"lambdarank_num_pair_per_sample": 8}
        return xgboost.train(params, data, num_boost_round=recipe.rounds)
    data = xgboost.DMatrix(matrix, label=label, weight=weight)
    total = np.bincount(groups, weight)

    def within(raw: Array, _: Any) -> tuple[Array, Array]:
        """Gradients of the squared error when each task's constant is always at its best."""
        error = raw - label
        error -= (np.bincount(groups, weight * error) / total)[groups]
        return weight * error, weight

    return xgboost.train(params, data, num_boost_round=recipe.rounds, obj=within)


def _weights(task: Samples, stress: float) -> Array:
    weights = (task.seconds.min() / task.seconds) ** stress
    out: Array = weights / weights.mean()
    return out


def _ranks(tasks: Sequence[Samples]) -> Array:
    """Relevance of candidates from 0 to 31: 31 the fastest, one less for each 10 % more time."""
    return np.concatenate([np.maximum(31 - np.log(t.seconds / t.seconds.min()) / 0.1, 0) for t in tasks])


def _scale(tasks: Sequence[Samples], raw: Sequence[Array]) -> float:
    """The factor that makes logarithms of time of scores, which grow with speed: least squares."""
    x = np.concatenate([r - r.mean() for r in raw])
    y = np.concatenate([t.residual - t.residual.mean() for t in tasks])
    return float(x @ y / max(float(x @ x), 1e-12))


def held_out(
    tasks: Sequence[Samples], families: Sequence[str], share: float, seed: int
) -> tuple[list[Samples], list[Samples]]:
    """Tasks to train on, and to evaluate on: those of the families, or without families a share of all
    workloads. A workload is never on both sides."""
    if families:
        out = {t.workload for t in tasks if t.family in families}
    else:
        workloads = sorted({t.workload for t in tasks})
        order = np.random.default_rng(seed).permutation(len(workloads))
        out = {workloads[i] for i in order[: round(share * len(workloads))]}
    return [t for t in tasks if t.workload not in out], [t for t in tasks if t.workload in out]


def evaluate(model: Model, tasks: Sequence[Samples]) -> Scores:
    """With no measurement of the tasks themselves."""
    return scores([(t.prior_s * np.exp(model.residual(t.matrix)), t.seconds) for t in tasks])


def evaluate_prior(tasks: Sequence[Samples]) -> Scores:
    return scores([(t.prior_s, t.seconds) for t in tasks])
