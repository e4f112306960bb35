"""What the API takes and gives. These models are the OpenAPI document."""

import datetime as dt
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from tunesmith.db import JobState, Match, TaskState
from tunesmith.records import Status
from tunesmith.service.forms import TargetDocument
from tunesmith.service.lines import Line

__all__ = [
    "AdviceView",
    "ArtifactKind",
    "BestQuery",
    "BestView",
    "BoundView",
    "CorrectionView",
    "EffectView",
    "EstimateView",
    "ExplanationView",
    "Health",
    "JobBest",
    "JobList",
    "JobProgress",
    "JobRequest",
    "JobSummary",
    "JobView",
    "MeasurementView",
    "Problem",
    "RecordList",
    "RecordSummaryView",
    "RecordView",
    "StageTimeView",
    "TargetList",
    "TargetView",
    "TaskList",
    "TaskRequest",
    "TaskView",
    "TermView",
    "WorkloadList",
    "WorkloadSummaryView",
    "WorkloadView",
]

_EXAMPLE_TEXT = "def dense(x: f32[128, 768], w: f32[768, 768]):\n    return x @ w"

ProgramText = Annotated[str, Field(description="Text of the expression language.", examples=[_EXAMPLE_TEXT])]
OperatorText = Annotated[
    str,
    Field(max_length=4096, description="A named operator with sizes.", examples=["matmul(512,512,512)"]),
]


class _Body(BaseModel):
    """A body; members that are not known are refused."""

    model_config = ConfigDict(extra="forbid")


class _View(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class TaskRequest(_Body):
    """Exactly one of ``program`` and ``operator``."""

    program: ProgramText | None = None
    operator: OperatorText | None = None
    weight: float = Field(
        1.0, strict=True, gt=0, le=1e9, description="How often a call of the whole calls it."
    )
    name: Line | None = Field(None, max_length=200)

    @model_validator(mode="after")
    def _one_source(self) -> "TaskRequest":
        if (self.program is None) == (self.operator is None):
            raise ValueError("give exactly one of program and operator")
        return self


class JobRequest(_Body):
    """Exactly one of ``program``, ``operator`` and ``tasks``. ``trials`` counts those recorded before, unless
    ``fresh``; it is 64 (for each task) when neither ``trials`` nor ``seconds`` is given."""

    program: ProgramText | None = None
    operator: OperatorText | None = None
    tasks: list[TaskRequest] | None = Field(
        None,
        min_length=1,
        max_length=256,
        description="Several computations, such as a model's layers, tuned under one budget.",
    )
    priority: int = Field(
        0, strict=True, ge=-1000, le=1000, description="The most urgent first, of these the oldest."
    )
    trials: int | None = Field(
        None, strict=True, ge=1, le=100_000, description="Budget in measured candidates."
    )
    seconds: float | None = Field(None, strict=True, gt=0, le=7 * 86400, description="Budget in time.")
    threads: int = Field(1, strict=True, ge=1, description="Threads that the kernel may use.")
    seed: int = Field(0, strict=True, ge=0, lt=1 << 63)
    fresh: bool = Field(False, strict=True, description="Leave out of account what is recorded already.")
    cache: Literal["warm", "cold"] = Field("warm", description="State of the caches when a call is timed.")

    @model_validator(mode="after")
    def _one_source(self) -> "JobRequest":
        if [self.program, self.operator, self.tasks].count(None) != 2:
            raise ValueError("give exactly one of program, operator and tasks")
        return self


_GivenTarget = Annotated[
    Annotated[str, Field(max_length=64), Tag("fingerprint")] | Annotated[TargetDocument, Tag("document")],
    Discriminator(lambda given: "fingerprint" if isinstance(given, str) else "document"),
]


class BestQuery(_Body):
    """Exactly one of ``program``, ``operator`` and ``workload``."""

    program: ProgramText | None = None
    operator: OperatorText | None = None
    workload: str | None = Field(None, max_length=64, description="Hash of a workload.")
    target: _GivenTarget | None = Field(
        None,
        description="Fingerprint of a target that is known here, or a whole target, which need not be;"
        " without it, any target.",
    )
    near: bool = Field(False, description="If it was never tuned, answer from other shapes.")

    @model_validator(mode="after")
    def _one_source(self) -> "BestQuery":
        if [self.program, self.operator, self.workload].count(None) != 2:
            raise ValueError("give exactly one of program, operator and workload")
        return self


class JobBest(_View):
    record: str
    time_s: float
    gflops: float
    peak_fraction: float | None = Field(None, description="Of the measured FMA peak; not in lists.")


class JobProgress(_View):
    """``trials`` counts as the budget does; ``measured`` and ``failed`` are those of this job."""

    phase: str
    trials: int
    trials_total: int | None
    measured: int
    failed: int
    elapsed_s: float
    untuned_s: float | None = Field(description="Time of the default schedule, once it is known.")
    best: JobBest | None = Field(description="Of a job with one task.")
    end_to_end_s: float | None = Field(description="Of several tasks: the sum of weight × best.")


class JobSummary(_View):
    id: str
    state: JobState
    name: str
    workload: str = Field(description="Hash of the workload; of several tasks, of the first.")
    priority: int
    options: dict[str, Any]
    progress: JobProgress
    requested: Literal["paused", "stopped", "cancelled"] | None = Field(
        description="What was asked of a running job, and has not come about yet."
    )
    attempt: int = Field(description="How often a worker has taken it up.")
    version: int
    error: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    links: dict[str, str]


class JobView(JobSummary):
    source: dict[str, Any]
    result: dict[str, Any] | None = Field(description="As `tunesmith tune --json` gives it, when it ended.")


class JobList(_View):
    items: list[JobSummary]
    next_cursor: str | None


class TaskView(_View):
    """Counts are of the job's own records; the best may be of an earlier one."""

    id: str
    workload: str = Field(validation_alias="workload_hash", description="Hash of the workload.")
    name: str
    position: int
    weight: float
    state: TaskState
    measured: int = Field(validation_alias="n_trials")
    failed: int = Field(validation_alias="n_failed")
    best_record: str | None = Field(validation_alias="best_record_id")
    best_s: float | None
    best_gflops: float | None


class TaskList(_View):
    items: list[TaskView]


class TargetView(_View):
    fingerprint: str
    triple: str
    cpu: str
    features: str
    model: str
    cores: int
    threads: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    line_bytes: int
    vector_bytes: int
    vector_registers: int
    peaks: dict[str, float] = Field(description="Measured on one core.")


class TargetList(_View):
    items: list[TargetView]
    next_cursor: str | None


class WorkloadView(_View):
    hash: str
    structure: str
    name: str
    program: dict[str, Any]
    flops: int
    min_bytes: int
    dtype: str


class WorkloadSummaryView(_View):
    hash: str
    structure: str
    name: str
    dtype: str
    flops: int
    min_bytes: int
    n_records: int
    n_failed: int
    best_record_id: str | None
    best_s: float | None
    best_gflops: float | None
    created_at: dt.datetime


class WorkloadList(_View):
    items: list[WorkloadSummaryView]
    next_cursor: str | None


class MeasurementView(_View):
    """Numbers that JSON has no word for (an infinite error) are null."""

    status: Status
    time_s: float | None
    times_s: list[float | None]
    spread: float
    error: str
    signal: int
    build_s: float
    run_s: float
    max_error: float | None
    tolerance: float | None
    drift: float


class RecordSummaryView(_View):
    id: str
    workload_hash: str
    workload_name: str
    target_fingerprint: str
    job_id: str | None
    status: Status
    trial: int
    time_s: float | None
    race_s: float | None
    gflops: float | None
    schedule_hash: str
    error: str
    created_at: dt.datetime


class RecordList(_View):
    items: list[RecordSummaryView]
    next_cursor: str | None


class RecordView(_View):
    id: str
    workload: WorkloadView
    target: TargetView
    schedule: dict[str, Any]
    schedule_hash: str
    measurement: MeasurementView
    gflops: float
    protocol: dict[str, Any]
    trial: int
    seed: int
    created_at: dt.datetime
    versions: dict[str, str]
    job_id: str | None


class EstimateView(_View):
    """From records of other shapes; nothing of it is measured. ``loss``: by how much it is expected to take
    longer than what tuning finds; ``basis`` says what that and the time rest on."""

    workload: str = Field(description="Hash of the workload that was asked for.")
    target: str = Field(description="Fingerprint of the target.")
    loss: float
    basis: str
    source: str = Field(description="Id of the record whose schedule was carried over.")
    distance: float = Field(description="Of that record's shape: 1 is a factor of two everywhere.")
    records: list[str] = Field(description="Ids of all records that were used.")
    skipped: list[str] = Field(description="Why others were not.")


class BestView(_View):
    """``match`` says how close the record's target is to the one asked for; with ``near`` there is no
    ``record``, but an ``estimate``. ``time_s`` is the time of the final race if the record was ``raced``,
    otherwise the median of its trial, or the estimated one."""

    match: Match | Literal["near"]
    time_s: float
    raced: bool
    gflops: float
    peak_fraction: float | None
    schedule: dict[str, Any]
    record: RecordView | None
    estimate: EstimateView | None


class TermView(_View):
    alone_s: float = Field(description="What the stage would take by this alone.")
    adds_s: float = Field(description="What it adds to the larger ones; these add up to the stage's time.")
    saves_s: float = Field(description="What would be saved without it.")


class StageTimeView(_View):
    """``terms`` by name: arithmetic, loads, stores, latency, spills, overhead, l1, l2, l3 (what comes into
    that cache). ``margin``: how many times as long the binding term takes as the ``runner_up``."""

    name: str
    formula: str
    is_copy: bool = Field(description="Of an operand, in the order in which it is read.")
    reduces: bool
    reuses: bool = Field(description="A reduction that uses operands more than once.")
    time_s: float
    share: float
    binding: str
    runner_up: str | None
    margin: float | None
    terms: dict[str, TermView]
    loads_per_fma: float
    accumulators: float
    unrolled: float
    passes: float
    parallel: float
    lanes_used: float
    wasted: float


class BoundView(_View):
    """The roofline: seconds that no schedule is faster than, and what makes it so (``by``)."""

    time_s: float
    by: str
    times_s: dict[str, float]
    flops: int
    bytes: int


class EffectView(_View):
    feature: str
    phrase: str
    value: float
    change: float = Field(description="0.1: the prediction is a tenth longer for it.")


class CorrectionView(_View):
    """What trees make of the time before them: 1 + ``change`` is the product of one more than each of the
    ``effects``, the ``rest`` of the features, and the ``constant`` that all candidates share."""

    change: float
    constant: float
    effects: list[EffectView]
    rest: float
    trials: int | None


class AdviceView(_View):
    stage: str
    term: str
    saves: float = Field(description="Share of the time that is gone at most.")
    text: str


class ExplanationView(_View):
    """As `tunesmith explain --json` gives it. ``prior_s`` is the sum over stages; the prediction is the prior
    after both corrections, which are null where no trees have a say."""

    name: str
    workload: str = Field(description="Hash of the workload.")
    target: str = Field(description="Fingerprint of the target.")
    threads: int
    record: str | None
    trial: int | None
    status: Status | None
    measured_s: float | None
    model: str = Field(description="Which pretrained model has a say, or why none.")
    prior_s: float
    predicted_s: float
    bound: BoundView
    registers: int
    stages: list[StageTimeView]
    pretrained: CorrectionView | None
    learnt: CorrectionView | None
    advice: list[AdviceView]


class ArtifactKind(StrEnum):
    LLVM = "llvm"
    ASM = "asm"
    OBJECT = "object"
    LIBRARY = "library"
    HEADER = "header"


class Health(_View):
    status: Literal["ok"] = "ok"


class Problem(BaseModel):
    """Problem details after RFC 9457. ``line`` and ``column`` count from 1; 0 means unknown."""

    type: str
    title: str
    status: int
    detail: str
    trace_id: str | None = None
    line: int | None = None
    column: int | None = None
    errors: list[dict[str, str]] | None = None
