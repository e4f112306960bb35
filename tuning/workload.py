"""Programs as workloads: the canonical form is what is tuned, stored and found again."""

from tunesmith import __version__
from tunesmith.ir import (
    Program,
    canonical,
    dominant_dtype,
    extents,
    flops,
    min_bytes,
    program_to_json,
    structure_hash,
    workload_hash,
)
from tunesmith.records import Workload
from tunesmith.schedule import SCHEMA_VERSION

__all__ = ["versions", "workload_of"]


def workload_of(program: Program) -> tuple[Workload, Program]:
    """The workload of a program and its canonical form, whose names schedules refer to.

    The workload keeps the program as it was written, for its names; ``canonical`` leads to the other.
    """
    form = canonical(program)
    workload = Workload(
        workload_hash(program),
        structure_hash(program),
        program.name,
        program_to_json(program),
        flops(form),
        min_bytes(form),
        dominant_dtype(form).value,
        extents(form),
    )
    return workload, form


def versions() -> dict[str, str]:
    """What produced a record."""
    from tunesmith.codegen.llvm import llvm_version

    return {"tunesmith": __version__, "llvmlite": llvm_version(), "schedule": str(SCHEMA_VERSION)}
