"""Artifacts of strangers' records: built in a child process with limits, since LLVM ends its process when it
is asked for what it cannot do, and takes a long time over some code.

The child is this module: ``python -m tunesmith.tuning.apart PARENT KIND`` reads the record and writes what it
builds.
"""

import dataclasses
import datetime as dt
import json
import os
import resource
import subprocess
import sys
from typing import Any

from tunesmith.ir import TunesmithError
from tunesmith.measure.confine import confine, die_with_parent, limit
from tunesmith.measure.environment import worker_environment
from tunesmith.records import Measurement, Protocol, Record, Target, Workload

__all__ = ["artifact_apart"]

_MEMORY_BYTES = 8 << 30  # of address space: libraries and thread stacks reserve most of it
_CPU_S = 60
_PATIENCE_S = 90.0
_REFUSED = 3


def artifact_apart(record: Record, kind: str) -> bytes:
    """As ``artifact``, whatever the compiler dies of. Raises ``TunesmithError``."""
    command = [sys.executable, "-P", "-m", "tunesmith.tuning.apart", str(os.getpid()), kind]
    sent = json.dumps(_to_json(record)).encode()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env=worker_environment(),
    ) as child:  # fmt: skip
        try:
            data, words = child.communicate(sent, _PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TunesmithError(f"record {record.id} takes too long to compile") from None
        finally:
            child.kill()
    if child.returncode == _REFUSED:
        raise TunesmithError(words.decode(errors="replace")[:1000])
    if child.returncode != 0:
        raise TunesmithError(f"record {record.id} cannot be compiled for its target: the compiler died of it")
    return data


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

    limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    limit(resource.RLIMIT_CPU, _CPU_S)
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
