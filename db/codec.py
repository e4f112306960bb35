"""Records to rows and back. Knows the columns, but no SQL library: the quick lookup uses it too.

A row's workload and target are shared rows; what a record says differently (its own axis names in
the program, peaks measured another day) is kept in its ``variant`` document, so that every record
comes back exactly as it was added.
"""

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from tunesmith.records import Measurement, Peaks, Protocol, Record, Status, Target, Workload

__all__ = [
    "RECORD_COLUMNS",
    "document",
    "log_size",
    "parse_time",
    "plain_text",
    "record_from_row",
    "record_row",
    "served_gflops",
    "target_from_row",
    "target_row",
    "time_text",
    "workload_from_row",
    "workload_row",
]

RECORD_COLUMNS = (
    "id",
    "workload_id",
    "target_id",
    "job_id",
    "status",
    "trial",
    "seed",
    "time_s",
    "race_s",
    "rank_s",
    "unraced",
    "schedule_hash",
    "schedule",
    "measurement",
    "protocol",
    "versions",
    "error",
    "variant",
    "created_at",
)

_WORKLOAD_FIELDS = tuple(f.name for f in fields(Workload) if f.name != "hash")


def time_text(value: dt.datetime) -> str:
    """``2026-01-31T12:00:00.000000Z``. Raises ``ValueError`` for a datetime without zone."""
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone; use tunesmith.records.utc_now()")
    return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(value: str | dt.datetime) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return dt.datetime.fromisoformat(value)


def document(value: Any) -> Any:
    """A JSON column, whether the driver decoded it or not."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def workload_row(workload: Workload) -> dict[str, Any]:
    values = {name: getattr(workload, name) for name in _WORKLOAD_FIELDS}
    return {"id": workload.hash, **values, "log_size": log_size(workload.extents)}


def log_size(extents: Sequence[int]) -> float | None:
    """The mean of the extents' logarithms to base 2: two workloads of a structure are at least as far apart
    as these are, which is how near ones are found by an index."""
    return sum(map(math.log2, extents)) / len(extents) if extents and min(extents) > 0 else None


def workload_from_row(row: Mapping[str, Any]) -> Workload:
    values = {name: row[name] for name in _WORKLOAD_FIELDS}
    documents = {"program": document(row["program"]), "extents": tuple(document(row["extents"]) or ())}
    return Workload(hash=row["id"], **{**values, **documents})


def target_row(target: Target) -> dict[str, Any]:
    return {
        "id": target.fingerprint,
        "arch": target.arch,
        "cpu": target.cpu,
        "features": target.features,
        "model": target.model,
        "threads": target.threads,
        "vector_bytes": target.vector_bytes,
        "document": target.to_json(),
    }


def target_from_row(row: Mapping[str, Any]) -> Target:
    return Target.from_json(document(row["document"]))


def record_row(record: Record, workload: Workload, target: Target) -> dict[str, Any]:
    """The row of ``record``, given the shared rows of its workload and target as stored."""
    time_s = record.time_s if record.measurement.ok and 0 < record.time_s < math.inf else None
    measured = record.measurement.to_json()
    return {
        "id": record.id,
        "workload_id": record.workload.hash,
        "target_id": record.target.fingerprint,
        "job_id": record.job_id,
        "status": measured.pop("status"),
        "error": plain_text(measured.pop("error")),
        "trial": record.trial,
        "seed": record.seed,
        "time_s": time_s,
        "race_s": None,
        "rank_s": None if record.is_observation else time_s,
        "unraced": True,
        "cache": record.protocol.cache,
        "gflops": served_gflops(record.workload.flops, time_s),
        "schedule_hash": record.schedule_hash,
        "schedule": record.schedule,
        "measurement": _finite(measured),
        "protocol": record.protocol.to_json(),
        "versions": record.versions,
        "variant": _variant(record, workload, target),
        "created_at": record.created_at,
    }


def record_from_row(row: Mapping[str, Any], workload: Workload, target: Target) -> Record:
    variant = document(row["variant"]) or {}
    if "workload" in variant:
        changed = variant["workload"]
        if "extents" in changed:
            changed = {**changed, "extents": tuple(changed["extents"])}
        workload = replace(workload, **changed)
    if "peaks" in variant:
        target = replace(target, peaks=Peaks(**variant["peaks"]))
    return Record(
        id=row["id"],
        workload=workload,
        target=target,
        schedule=document(row["schedule"]),
        schedule_hash=row["schedule_hash"],
        measurement=_measurement(document(row["measurement"]), row["status"], row["error"]),
        protocol=Protocol.from_json(document(row["protocol"])),
        trial=row["trial"],
        seed=row["seed"],
        created_at=parse_time(row["created_at"]),
        versions=document(row["versions"]),
        job_id=row["job_id"],
    )


def plain_text(text: str) -> str:
    """Text that every database takes: what crashed kernels wrote may be anything."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def served_gflops(flops: int, time_s: float | None) -> float | None:
    return flops / time_s / 1e9 if time_s else None


def _measurement(data: dict[str, Any], status: str, error: str) -> Measurement:
    values: dict[str, Any] = {
        k: float(v) if isinstance(v, str) else v for k, v in data.items() if k != "times_s"
    }
    values["times_s"] = tuple(float(t) for t in data["times_s"])
    return Measurement(status=Status(status), error=error, **values)


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity (a wrong answer's error may be one): such numbers become text."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {k: [plain(t) for t in v] if k == "times_s" else plain(v) for k, v in data.items()}


def _variant(record: Record, workload: Workload, target: Target) -> dict[str, Any] | None:
    variant: dict[str, Any] = {}
    changed = {
        name: getattr(record.workload, name)
        for name in _WORKLOAD_FIELDS
        if not _same(getattr(record.workload, name), getattr(workload, name))
    }
    if changed:
        variant["workload"] = changed
    if record.target.peaks != target.peaks:
        variant["peaks"] = record.target.to_json()["peaks"]
    return variant or None


def _same(a: Any, b: Any) -> bool:
    """Equal, or equal once written as JSON (where tuples are lists)."""
    if a is b or a == b:
        return True
    return isinstance(a, dict) and json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
