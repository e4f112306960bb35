"""Values of the domain in the shapes of the API."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tunesmith.db import Best, Job, Store, Verb
from tunesmith.ir import DType
from tunesmith.records import Measurement, Record, Target, Workload
from tunesmith.service.schemas import (
    BestView,
    EstimateView,
    JobBest,
    JobProgress,
    JobSummary,
    JobView,
    MeasurementView,
    RecordView,
    TargetView,
    WorkloadView,
)

if TYPE_CHECKING:
    from tunesmith.tuning.near import Estimate

__all__ = [
    "best_view",
    "job_summary",
    "job_view",
    "near_view",
    "peak_fraction",
    "record_view",
    "target_view",
]


def peak_fraction(record: Record, gflops: float) -> float | None:
    """Of the measured FMA peak of the threads used."""
    return _share(record.workload, record.target, gflops)


def _share(workload: Workload, target: Target, gflops: float) -> float | None:
    try:
        peak = target.peaks.gflops(DType(workload.dtype)) * target.threads
    except ValueError:
        return None
    return gflops / peak if peak > 0 else None


def target_view(target: Target) -> TargetView:
    return TargetView(fingerprint=target.fingerprint, **target.to_json())


def record_view(record: Record) -> RecordView:
    return RecordView(
        id=record.id,
        workload=WorkloadView.model_validate(record.workload),
        target=target_view(record.target),
        schedule=record.schedule,
        schedule_hash=record.schedule_hash,
        measurement=_measurement_view(record.measurement),
        gflops=record.gflops,
        protocol=record.protocol.to_json(),
        trial=record.trial,
        seed=record.seed,
        created_at=record.created_at,
        versions=record.versions,
        job_id=record.job_id,
    )


def _measurement_view(measurement: Measurement) -> MeasurementView:
    values = asdict(measurement) | {"time_s": measurement.time_s, "spread": measurement.spread}
    values = {k: _finite(v) if isinstance(v, float) else v for k, v in values.items()}
    values["times_s"] = [_finite(t) for t in measurement.times_s]
    return MeasurementView(**values)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def best_view(best: Best) -> BestView:
    return BestView(
        match=best.match,
        time_s=best.time_s,
        raced=best.raced,
        gflops=best.gflops,
        peak_fraction=peak_fraction(best.record, best.gflops),
        schedule=best.record.schedule,
        record=record_view(best.record),
        estimate=None,
    )


def near_view(answer: "Estimate") -> BestView:
    source = answer.source.best.record
    return BestView(
        match="near",
        time_s=answer.time_s,
        raced=False,
        gflops=answer.gflops,
        peak_fraction=_share(answer.workload, answer.target, answer.gflops),
        schedule=answer.schedules[0].to_json(),
        record=None,
        estimate=EstimateView(
            workload=answer.workload.hash,
            target=answer.target.fingerprint,
            loss=answer.loss,
            basis=answer.basis,
            source=source.id,
            distance=answer.source.distance,
            records=[n.best.record.id for n in answer.neighbours],
            skipped=list(answer.skipped),
        ),
    )


def job_view(job: Job, store: Store) -> JobView:
    """``store`` gives the best record's target, of whose peak the share is stated."""
    return JobView(**_job_values(job, store), source=job.source, result=job.result)


def job_summary(job: Job) -> JobSummary:
    return JobSummary(**_job_values(job, None))


def _job_values(job: Job, store: Store | None) -> dict[str, Any]:
    path = f"/v1/jobs/{job.id}"
    return {
        "id": job.id,
        "state": job.state,
        "name": job.name,
        "workload": job.workload_hash,
        "options": job.options,
        "progress": _progress(job, store),
        "priority": job.priority,
        "requested": job.wanted,
        "attempt": job.attempt,
        "version": job.version,
        "error": job.error or None,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "links": {
            "self": path,
            "tasks": f"{path}/tasks",
            "events": f"{path}/events",
            "records": f"/v1/records?job={job.id}",
            **{verb.value: f"{path}:{verb.value}" for verb in Verb},
        },
    }


def _progress(job: Job, store: Store | None) -> JobProgress:
    return JobProgress(
        phase=job.phase,
        trials=max(job.trials_seen, job.n_trials),
        trials_total=job.trials_total,
        measured=job.n_trials,
        failed=job.n_failed,
        elapsed_s=job.elapsed_s,
        untuned_s=job.untuned_s,
        best=_job_best(job, store),
        end_to_end_s=job.end_to_end_s,
    )


def _job_best(job: Job, store: Store | None) -> JobBest | None:
    if job.best_record_id is None or job.best_s is None or job.best_gflops is None:
        return None
    fraction = peak_fraction(store.get(job.best_record_id), job.best_gflops) if store else None
    return JobBest(
        record=job.best_record_id, time_s=job.best_s, gflops=job.best_gflops, peak_fraction=fraction
    )
