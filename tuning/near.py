"""An answer for a shape that was never tuned: schedules of its neighbours, carried over and ranked.

Predicted times are set right by what the neighbours' schedules took over what was predicted of them. What a
transfer loses against tuning grows with the distance of the shapes; how fast, the neighbours tell: each is
taken for unknown in turn, and answered from the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np

from tunesmith.codegen import build
from tunesmith.codegen.llvm import BuildError
from tunesmith.costmodel import Ranker
from tunesmith.db import Match, Neighbour, Order, Page
from tunesmith.ir import Program, TunesmithError
from tunesmith.measure import Runner, reserved_cores
from tunesmith.records import Measurement, Protocol, Record, Status, Target, Workload, log_distance
from tunesmith.schedule import IllegalStep, Schedule, Sketch
from tunesmith.search import derive
from tunesmith.search.ports import seconds_of
from tunesmith.tuning.neighbours import NeighbourStore, Translated, seeds, translated
from tunesmith.tuning.pipeline import Trial, run_task
from tunesmith.tuning.pretrained import pretrained
from tunesmith.tuning.recording import Recorder, TrialStore
from tunesmith.tuning.workload import workload_of

__all__ = ["Estimate", "NearStore", "NothingNear", "Suggested", "confirm", "estimate"]

_USUAL_LOSS = 0.1  # a factor of two apart: what counts until there are transfers to learn from
_ELSEWHERE = 0.5  # distance that another target counts for
_LEAST, _JUDGED = 3, 4  # neighbours to learn from at all; of them are taken for unknown
_FASTEST = 100  # records of a neighbour among which a transferred schedule may have been measured
_TRIED = 3  # schedules, the best first, until one is right here


class NearStore(NeighbourStore, Interface):
    """What an estimate needs of a database."""

    def records(
        self, *, workload: str | None = ..., target: str | None = ..., order: Order = ..., limit: int = ...
    ) -> Page[Record]: ...


class NothingNear(TunesmithError):
    """No record of the same structure that can be carried over."""


class Suggested(Interface):
    """Schedules for a target, the most promising first: an ``Estimate``, or what others made of one."""

    @property
    def schedules(self) -> tuple[Schedule, ...]: ...
    @property
    def target(self) -> Target: ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """``schedules`` in the order of predicted time, the first from ``source``; ``time_s`` and ``loss`` are
    of the first. ``loss``: by how much it is expected to take longer than what tuning finds; ``basis`` says
    what both figures rest on. ``neighbours`` are all that were used, ``skipped`` the others with reasons."""

    workload: Workload
    target: Target
    schedules: tuple[Schedule, ...]
    time_s: float
    loss: float
    basis: str
    source: Neighbour
    neighbours: tuple[Neighbour, ...]
    skipped: tuple[str, ...]

    @property
    def gflops(self) -> float:
        return self.workload.flops / self.time_s / 1e9


def estimate(program: Program, target: Target, store: NearStore) -> Estimate:
    """Nothing is measured. Raises NothingNear."""
    workload, form = workload_of(program)
    space = derive(form, target)
    translation = seeds(store, workload, space, target, 0)
    if not translation.found:
        why = "".join(f"\n  {reason}" for reason in translation.skipped)
        raise NothingNear(f"nothing is known of other shapes of {program.name} that helps{why}")
    answers = {space.decode(t.candidate): t for t in reversed(translation.found)}
    ranked = sorted((_predicted(form, s, target), s.hash, s) for s in answers)
    source = answers[ranked[0][2]].neighbour
    ratios = [_ratio(t) for t in translation.found]
    time_s = ranked[0][0] * _calibration(translation.found, ratios)
    transfers = _transfers(translation.found, store)
    loss = _loss_a_doubling(transfers) * _distance(source)
    return Estimate(
        workload, target, tuple(s for _, _, s in ranked), time_s, loss, _basis(ratios, transfers), source,
        tuple(t.neighbour for t in translation.found), translation.skipped,
    )  # fmt: skip


def confirm(program: Program, answer: Suggested, store: TrialStore) -> Record:
    """Build, verify and time what was suggested, once, on this machine; the record is stored.

    A schedule that fails is recorded, and the next tried. Raises TunesmithError when none works.
    """
    workload, form = workload_of(program)
    protocol, target = Protocol(), answer.target
    recorder = Recorder(store, workload, target, protocol, 0)
    recorder.introduce()
    first = len(recorder.history())
    with Runner(run_task(form, target, 0), protocol) as runner, reserved_cores(target.threads):
        for number, schedule in enumerate(answer.schedules[:_TRIED], first):
            trial = Trial(number, schedule, measurement=_measured(form, schedule, target, runner))
            record = recorder.record(trial)
            if record.measurement.ok:
                return record
    raise TunesmithError(f"none of the suggested schedules works here: {record.measurement.error}")


def _measured(form: Program, schedule: Schedule, target: Target, runner: Runner) -> Measurement:
    try:
        binary = build(form, schedule, target)
    except (IllegalStep, BuildError) as error:
        return Measurement(Status.BUILD_ERROR, error=str(error))
    runner.submit(0, binary)
    while True:
        for _, measurement in runner.poll(1.0):
            return measurement


# -- times --------------------------------------------------------------------------------------------------


def _predicted(program: Program, schedule: Schedule, target: Target) -> float:
    """Seconds, by the cost model before it has learnt anything of this program."""
    ranker = Ranker(program, [Sketch("given", schedule.steps, ())], target, pretrained=pretrained().model)
    return float(seconds_of(ranker, 0, np.zeros((1, 0), dtype=np.int64))[0])


def _ratio(t: Translated) -> float:
    """What a neighbour's schedule took over what is predicted of it."""
    best = t.neighbour.best
    return best.time_s / _predicted(t.program, t.schedule, best.record.target)


def _calibration(found: Sequence[Translated], ratios: Sequence[float]) -> float:
    """The mean ratio, where the nearest count most."""
    weights = [1 / (0.25 + _distance(t.neighbour)) for t in found]
    return float(np.exp(np.average(np.log(ratios), weights=weights)))


def _distance(neighbour: Neighbour) -> float:
    return neighbour.distance + (0.0 if neighbour.best.match is Match.EXACT else _ELSEWHERE)


# -- what transfers lose ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Transfer:
    """From one neighbour to another: how far, and by how much it was slower than the best known there."""

    distance: float
    loss: float
    measured: bool


def _transfers(found: Sequence[Translated], store: NearStore) -> list[_Transfer]:
    """Each of the nearest neighbours answered from the others."""
    if len(found) < _LEAST:
        return []
    made = (_transfer(t, [o.neighbour for o in found if o is not t], store) for t in found[:_JUDGED])
    return [t for t in made if t is not None]


def _transfer(unknown: Translated, others: Sequence[Neighbour], store: NearStore) -> _Transfer | None:
    record = unknown.neighbour.best.record
    space = derive(unknown.program, record.target)
    answers = [(space.decode(t.candidate), t.neighbour) for t in translated(others, space).found]
    if not answers:
        return None
    times = {s: _predicted(unknown.program, s, record.target) for s, _ in answers}
    chosen, source = min(answers, key=lambda answer: (times[answer[0]], answer[0].hash))
    away = log_distance(source.best.record.workload.extents, record.workload.extents)
    page = store.records(
        workload=record.workload.hash, target=record.target.fingerprint, order=Order.TIME, limit=_FASTEST
    )
    trials = {r.schedule_hash: r.time_s for r in page.items}
    if chosen.hash in trials:
        return _Transfer(away, trials[chosen.hash] / min(trials.values()) - 1, True)
    best_s = _predicted(unknown.program, unknown.schedule, record.target)
    return _Transfer(away, max(0.0, times[chosen] / best_s - 1), False)


def _loss_a_doubling(transfers: Sequence[_Transfer]) -> float:
    """Loss over distance, with the usual one as if it had been seen once."""
    return (_USUAL_LOSS + sum(t.loss for t in transfers)) / (1 + sum(t.distance for t in transfers))


def _basis(ratios: Sequence[float], transfers: Sequence[_Transfer]) -> str:
    records = f"{len(ratios)} record{'s' * (len(ratios) > 1)}"
    time = f"time: {records}, measured over predicted {min(ratios):.2f} to {max(ratios):.2f}"
    if not transfers:
        return f"{time}; loss: from the distance alone, {_USUAL_LOSS:.0%} a factor of two"
    median, worst = np.median([t.loss for t in transfers]), max(t.loss for t in transfers)
    measured = sum(t.measured for t in transfers)
    how = f"{measured} of them measured, the others predicted" if measured else "all predicted"
    return (
        f"{time}; loss: {len(transfers)} transfers among them ({how}) lost {median:.0%} in the median and"
        f" {worst:.0%} at most, {np.median([t.distance for t in transfers]):.1f} doublings away"
    )
