"""Artifacts of strangers' records: built in a child process with limits, since LLVM ends its process when it
is asked for what it cannot do, and takes a long time over some code.

The child is this module: ``python -m tunesmith.tuning.apart PARENT KIND`` reads the record and writes what it
builds.
"""

import dataclasses
import datetime as dt
import json
import subprocess
import sys
from typing import Any

from tunesmith.ir import TunesmithError
from tunesmith.measure.confine import confine
from tunesmith.measure.guard import die_with_parent
from tunesmith.records import Measurement, Protocol, Record, Target, Workload
from tunesmith.tuning.child import ask_child, limit_child

__all__ = ["artifact_apart"]

_CPU_S = 60
_PATIENCE_S = 90.0
_REFUSED = 3


def artifact_apart(record: Record, kind: str) -> bytes:
    """As ``artifact``, whatever the compiler dies of. Raises ``TunesmithError``."""
    sent = json.dumps(_to_json(record)).encode()
    try:
        done = ask_child("tunesmith.tuning.apart", kind, patience_s=_PATIENCE_S, sent=sent)
    except subprocess.TimeoutExpired:
        raise TunesmithError(f"record {record.id} takes too long to compile") from None
    if done.returncode == _REFUSED:
        raise TunesmithError(done.stderr.decode(errors="replace")[:1000])
    if done.returncode != 0:
        raise TunesmithError(f"record {record.id} cannot be compiled for its target: the compiler died of it")
    return done.stdout


def _to_json(record: Record) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return values | {
        "workload": dataclasses.asdict(record.workload),
        "target": record.target.to_json(),
        "measurement": record.measurement.to_json(),
        "protocol": record.protocol.to_json(),
        "created_at": record.created_at.isoformat(),
    }


def _from_json(sent: dict[str, Any]) -> Record:
    made = {
        "workload": Workload(**sent["workload"]),
        "target": Target.from_json(sent["target"]),
        "measurement": Measurement.from_json(sent["measurement"]),
        "protocol": Protocol.from_json(sent["protocol"]),
        "created_at": dt.datetime.fromisoformat(sent["created_at"]),
    }
    return Record(**(sent | made))


def _main() -> None:
    die_with_parent(int(sys.argv[1]))
    kind = sys.argv[2]
    record = _from_json(json.load(sys.stdin))
    from tunesmith.tuning.artifacts import artifact

    limit_child(_CPU_S)
    if kind != "library":  # which the host's C compiler links
        confine()
    try:
        data = artifact(record, kind)
    except TunesmithError as fault:
        sys.stderr.write(str(fault))
        sys.exit(_REFUSED)
    sys.stdout.buffer.write(data)


if __name__ == "__main__":
    _main()
