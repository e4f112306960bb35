"""Artifacts of records that strangers made: whatever the compiler makes of them, this process goes on."""

from dataclasses import replace

import pytest
from db_samples import TARGET, record

from tunesmith.frontend import operator
from tunesmith.ir import TunesmithError
from tunesmith.records import Record
from tunesmith.schedule import Schedule
from tunesmith.tuning import artifact, workload_of
from tunesmith.tuning.apart import artifact_apart

WORKLOAD, _ = workload_of(operator("matmul(8,8,8)"))


def made(triple: str = "x86_64-unknown-linux-gnu", features: str = "") -> Record:
    target = replace(TARGET, triple=triple, cpu="x86-64", features=features)
    return record(
        workload=WORKLOAD, schedule=Schedule().to_json(), schedule_hash=Schedule().hash, target=target
    )


@pytest.mark.parametrize("kind", ["asm", "object", "library"])
def test_the_same_as_here(kind: str) -> None:
    assert artifact_apart(made(), kind) == artifact(made(), kind)


@pytest.mark.parametrize(
    ("triple", "features"),
    [
        ("x86_64-unknown-linux-gnu", "-64bit"),  # an error that ends the process
        ("x86_64-unknown-linux-xcoff", ""),  # a failed assertion
        ("nowhere-unknown-unknown", ""),  # refused
    ],
)
def test_compilers_that_die(triple: str, features: str) -> None:
    with pytest.raises(TunesmithError, match=r"died of it|nowhere"):
        artifact_apart(made(triple, features), "object")
