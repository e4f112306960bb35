"""Why a candidate is predicted to take its time, and where that goes.

    prior      = the sum over stages; a stage's terms overlap, and the largest binds
    prediction = prior * what a pretrained model says * what is learnt from trials of this program

Terms are taken from the prior by leaving others out of its formula, so they hold whatever the formula is:
by itself (all others nothing), what it adds (terms put in one by one, the largest first: these add up), and
what would be saved without it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.advice import Advice, advise
from tunesmith.costmodel.anatomy import ALONE, Part, anatomy
from tunesmith.costmodel.bound import Bound, bound, held
from tunesmith.costmodel.features import NAMES, features_of
from tunesmith.costmodel.model import Model
from tunesmith.costmodel.phrases import LEVELS, TERMS, phrase
from tunesmith.costmodel.prior import StageCost
from tunesmith.costmodel.ranker import Ranker
from tunesmith.costmodel.stagetime import StageTime, Term
from tunesmith.ir.program import Program
from tunesmith.records import Target
from tunesmith.schedule import Schedule

__all__ = ["Correction", "Effect", "Explanation", "explain"]

_TOP = 6  # effects that are told one by one


@dataclass(frozen=True, slots=True)
class Effect:
    """A feature's part in a correction. ``change``: 0.1 makes the prediction a tenth longer."""

    feature: str
    phrase: str
    value: float
    change: float


@dataclass(frozen=True, slots=True)
class Correction:
    """What trees make of the time before them: its ``change`` is that of all effects, of the other features
    together (``rest``) and of what all candidates share (``constant``), as factors one after another.

    ``trials``: how many of this program it is learnt from; None of a pretrained model.
    """

    change: float
    constant: float
    effects: tuple[Effect, ...]
    rest: float
    trials: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Seconds of a call. ``registers``: vectors that the machine has. Corrections are None where no trees
    have a say."""

    prior_s: float
    predicted_s: float
    bound: Bound
    registers: int
    stages: tuple[StageTime, ...]
    pretrained: Correction | None
    learnt: Correction | None
    advice: tuple[Advice, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    program: Program,
    schedule: Schedule,
    target: Target,
    pretrained: Model | None = None,
    ranker: Ranker | None = None,
    *,
    warm: bool = True,
) -> Explanation:
    """One candidate of a program. ``ranker`` has observed other trials of it, on top of ``pretrained``.

    ``warm``: operands are in the caches that hold them. Raises IllegalStep for a schedule that is none of
    this program.
    """
    found = anatomy(program, schedule, target)
    features = features_of(found.state, found.sketch, ALONE, target)
    prior_s = float(features.prior_s[0])
    stages = tuple(_stage_time(p, prior_s) for p in found.parts)
    row = features.matrix[0]
    before = None if pretrained is None else _correction(row, pretrained.contributions(features.matrix)[0])
    learnt = None
    if ranker is not None and ranker.trained:
        learnt = _correction(row, ranker.contributions(features.matrix)[0], ranker.trained)
    factors = [1.0 + c.change for c in (before, learnt) if c is not None]
    return Explanation(
        prior_s=prior_s,
        predicted_s=prior_s * float(np.prod(factors)),
        bound=bound(program, target, warm=warm),
        registers=found.machine.registers,
        stages=stages,
        pretrained=before,
        learnt=learnt,
        advice=advise(stages, found.machine.registers, prior_s, held(program, target, warm=warm)),
    )


def _stage_time(part: Part, prior_s: float) -> StageTime:
    terms = _terms(part.cost)
    binding, *others = sorted(terms, key=lambda t: -terms[t].alone_s)
    following = terms[others[0]].alone_s
    time_s = _number(part.cost.time)
    return StageTime(
        name=part.name,
        formula=part.formula,
        is_copy=part.is_copy,
        reduces=part.reduces,
        reuses=part.reuses,
        time_s=time_s,
        share=time_s / prior_s,
        binding=binding,
        runner_up=others[0] if following else None,
        margin=terms[binding].alone_s / following if following else None,
        terms=terms,
        loads_per_fma=part.loads_per_fma,
        accumulators=part.accumulators,
        unrolled=part.unrolled,
        passes=part.passes,
        parallel=_number(part.cost.parallel),
        lanes_used=part.lanes_used,
        wasted=part.wasted,
    )


def _terms(cost: StageCost) -> Mapping[str, Term]:
    alone = {t: _time_of(cost, {t}) for t in TERMS}
    adds: dict[str, float] = {}
    before = 0.0
    for term in sorted(TERMS, key=lambda t: -alone[t]):
        after = _time_of(cost, {*adds, term})
        adds[term], before = after - before, after
    saves = {t: before - _time_of(cost, TERMS.keys() - {t}) for t in TERMS}
    return {t: Term(alone[t], adds[t], saves[t]) for t in TERMS}


def _time_of(cost: StageCost, kept: Collection[str]) -> float:
    """Seconds of a stage with some of its terms only."""
    nothing = np.zeros(1)
    ports = {t: nothing for t in TERMS if t not in kept and t not in LEVELS}
    levels = tuple(x if t in kept else nothing for t, x in zip(LEVELS, cost.levels, strict=True))
    return _number(replace(cost, **ports, levels=levels).time)


def _number(value: Any) -> float:
    return float(np.ravel(value)[0])


def _correction(
    row: NDArray[np.float32], parts: NDArray[np.float64], trials: int | None = None
) -> Correction:
    order: Sequence[int] = np.argsort(-np.abs(parts[:-1]), kind="stable").tolist()
    top = [i for i in order[:_TOP] if parts[i]]
    effects = tuple(Effect(NAMES[i], phrase(NAMES[i]), float(row[i]), float(np.expm1(parts[i]))) for i in top)
    return Correction(
        change=float(np.expm1(parts.sum())),
        constant=float(np.expm1(parts[-1])),
        effects=effects,
        rest=float(np.expm1(parts[:-1].sum() - parts[top].sum())),
        trials=trials,
    )
