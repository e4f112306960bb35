"""What the service answers, as values of the library; for those who go on working with it here.

An answer is not trusted: hashes and counts of a workload are computed from its program. Programs and
schedules are data that is checked when it is used, so nothing that a service can send is executed.
"""

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from tunesmith.client.errors import ClientError
from tunesmith.ir import TunesmithError, program_from_json
from tunesmith.records import Measurement, Peaks, Protocol, Record, Status, Target
from tunesmith.tuning.workload import workload_of

__all__ = ["instant", "record_of", "value_of"]

T = TypeVar("T")


def record_of(document: Mapping[str, Any]) -> Record:
    """The record of ``Client.record``, or the one in ``Client.best``. Raises ``ClientError``."""
    try:
        workload, _ = workload_of(program_from_json(document["workload"]["program"]))
        return value_of(
            Record,
            document,
            workload=workload,
            target=_target(document["target"]),
            measurement=_measurement(document["measurement"]),
            protocol=value_of(Protocol, document["protocol"]),
            created_at=instant(document["created_at"]),
        )
    except (KeyError, TypeError, ValueError, TunesmithError) as fault:
        raise ClientError(f"the service's answer is no record that this version can read: {fault}") from fault


def _target(document: Mapping[str, Any]) -> Target:
    target = value_of(Target, document, peaks=value_of(Peaks, document["peaks"]))
    if not all(x.isprintable() for x in (target.triple, target.cpu, target.features, target.model)):
        raise ValueError("its target is named with control characters")
    return target


def _measurement(document: Mapping[str, Any]) -> Measurement:
    times_s = tuple(math.inf if t is None else float(t) for t in document["times_s"])
    return value_of(Measurement, document, status=Status(document["status"]), times_s=times_s)


def value_of(kind: type[T], document: Mapping[str, Any], **converted: Any) -> T:
    """A dataclass from the members that it has a field for; newer services may send more."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: converted[name] if name in converted else document[name] for name in names})


def instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
