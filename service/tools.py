"""What the service needs from the rest of Tunesmith, as functions that tests can replace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tunesmith.db import NotFound, Store
from tunesmith.db.values import Best, Neighbour
from tunesmith.frontend import operator
from tunesmith.ir import Program, parse
from tunesmith.records import Record, Target, Workload
from tunesmith.tuning.types import ManyObserver, ManyResult, Observer, TuneOptions, TuneResult, WeightedTask

if TYPE_CHECKING:
    from tunesmith.tuning.model_check import ModelFacts
    from tunesmith.tuning.near import Estimate

__all__ = [
    "Artifact",
    "CheckModel",
    "Explain",
    "Near",
    "Tools",
    "Tune",
    "TuneMany",
    "TuneStore",
    "default_tools",
]


class TuneStore(Protocol):
    """What a tuner gets of the database. Every ``add`` is durable."""

    def add_workload(self, workload: Workload) -> None: ...
    def add_target(self, target: Target) -> None: ...
    def add(self, record: Record) -> bool: ...
    def history(self, workload_hash: str, fingerprint: str) -> list[Record]: ...
    def neighbours(
        self, workload: Workload, target: Target, limit: int = 8, *, observed: bool = False
    ) -> list[Neighbour]: ...
    def best(self, workload_hash: str, target: Target, *, cache: str) -> Best | None: ...
    def set_race(self, times_s: Mapping[str, float], *, job_id: str | None = None) -> None: ...


class Tune(Protocol):
    """Tunes a program to the end of its budget, until ``should_stop()`` (a ``Halt``), or until it is done.

    Called in the worker's thread. Commits every trial to ``store`` as it ends, with ``job_id``; counts
    what is recorded already. Raises ``TunesmithError`` for what the user can mend.
    """

    def __call__(
        self,
        program: Program,
        options: TuneOptions,
        store: TuneStore,
        on_event: Observer,
        should_stop: Callable[[], int],
        job_id: str | None,
    ) -> TuneResult: ...


class TuneMany(Protocol):
    """The same for several programs under one budget."""

    def __call__(
        self,
        tasks: Sequence[WeightedTask],
        options: TuneOptions,
        store: TuneStore,
        on_event: ManyObserver,
        should_stop: Callable[[], int],
        job_id: str | None,
    ) -> ManyResult: ...


class Artifact(Protocol):
    """Builds ``llvm``, ``asm``, ``object``, ``library`` or ``header``. Raises ``TunesmithError``."""

    def __call__(self, record: Record, kind: str) -> bytes: ...


class Explain(Protocol):
    """Says why a record takes its time, as ``tunesmith explain --json`` does. Raises ``TunesmithError``."""

    def __call__(self, record: Record, store: Store) -> dict[str, Any]: ...


class CheckModel(Protocol):
    """Reads a model's file without trusting it. Raises ``TunesmithError``."""

    def __call__(self, data: bytes) -> "ModelFacts": ...


class Near(Protocol):
    """Estimates what a program takes from records of other shapes. Raises ``NotFound`` without any."""

    def __call__(self, program: Program, target: Target, store: Store) -> "Estimate": ...


def _check_model(data: bytes) -> "ModelFacts":
    from tunesmith.tuning.model_check import check_model

    return check_model(data)


def _near(program: Program, target: Target, store: Store) -> "Estimate":
    from tunesmith.tuning.near import NothingNear, estimate

    try:
        return estimate(program, target, store)
    except NothingNear as fault:
        raise NotFound("working record of workload", program.name, str(fault)) from fault


def _explain(record: Record, store: Store) -> dict[str, Any]:
    """The real one; it brings the cost model with it, and is imported when first asked for."""
    from tunesmith.tuning import explain_record

    return explain_record(record, store).to_json()


def _tune_many(
    tasks: Sequence[WeightedTask],
    options: TuneOptions,
    store: TuneStore,
    on_event: ManyObserver,
    should_stop: Callable[[], int],
    job_id: str | None,
) -> ManyResult:
    """The real one, imported when first asked for."""
    from tunesmith.tuning import tune_many

    return tune_many(tasks, options, store, on_event, should_stop, job_id)


@dataclass(frozen=True, slots=True)
class Tools:
    """``parse`` and ``operator`` raise ``ProgramError``; neither executes anything of the text."""

    tune: Tune
    artifact: Artifact
    explain: Explain = _explain
    tune_many: TuneMany = _tune_many
    near: Near = _near
    check_model: CheckModel = _check_model
    parse: Callable[[str], Program] = parse
    operator: Callable[[str], Program] = operator

    def program(self, source: dict[str, Any]) -> Program:
        """The program that a request's ``{"program": text}`` or ``{"operator": text}`` stands for."""
        return self.parse(source["program"]) if "program" in source else self.operator(source["operator"])


def default_tools() -> Tools:
    """The real tuner, which brings LLVM and XGBoost with it; hence imported only here."""
    from tunesmith.tuning import tune
    from tunesmith.tuning.apart import artifact_apart

    return Tools(tune=tune, artifact=artifact_apart)
