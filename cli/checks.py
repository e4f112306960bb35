"""The doctor's checks. Each looks at one thing and returns what it found and what to do about it."""

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tunesmith.cli.output import format_bytes

__all__ = [
    "Check",
    "Level",
    "check_c_compiler",
    "check_cost_model",
    "check_database",
    "check_disk",
    "check_governor",
    "check_llvm",
    "check_load",
    "check_openmp",
    "check_python",
    "check_target",
]

_CPUS = Path("/sys/devices/system/cpu")
_GOVERNOR = _CPUS / "cpu0/cpufreq/scaling_governor"
_DRIVER = _GOVERNOR.with_name("scaling_driver")
_SELF_REGULATING = ("intel_pstate", "amd-pstate-epp")  # "powersave" is their normal, dynamic mode
_BUSY = 0.5
_LOW_BYTES, _FULL_BYTES = 1 << 30, 50 << 20


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """``advice`` says what to do; empty when there is nothing to do."""

    name: str
    level: Level
    detail: str
    advice: str = ""


def check_python() -> Check:
    return Check("python", Level.OK, f"{platform.python_version()} ({sys.executable})")


def check_llvm() -> Check:
    from tunesmith.codegen.llvm import llvm_version

    return Check("llvm", Level.OK, f"llvmlite {llvm_version()}")


def check_target(*, fresh: bool) -> list[Check]:
    """The CPU, and its peaks as measured."""
    from tunesmith.measure import detect_target

    target = detect_target(1, fresh=fresh)
    caches = ", ".join(
        f"{name} {format_bytes(size)}"
        for name, size in (("L1", target.l1d_bytes), ("L2", target.l2_bytes), ("L3", target.l3_bytes))
        if size
    )
    vectors = f"{8 * target.vector_bytes}-bit vectors, {target.vector_registers} registers"
    cpu = f"{target.model} ({target.cpu}), {target.cores} cores, {vectors}, {caches}"
    peaks = target.peaks
    rates = f"{peaks.f32_gflops:.0f} GFLOP/s f32, {peaks.f64_gflops:.0f} f64"
    bandwidths = (
        f"L1 {peaks.l1_gbs:.0f}, L2 {peaks.l2_gbs:.0f}, L3 {peaks.l3_gbs:.0f}, DRAM {peaks.dram_gbs:.0f} GB/s"
    )
    measured = peaks.f32_gflops > 0 and peaks.dram_gbs > 0
    return [
        Check("cpu", Level.OK, cpu),
        Check(
            "peaks",
            Level.OK if measured else Level.BROKEN,
            f"one core: {rates}; reads {bandwidths}",
            "" if measured else "measure again on a quiet machine: tunesmith doctor --fresh",
        ),
    ]


def check_governor() -> Check:
    governor, driver = _read(_GOVERNOR), _read(_DRIVER)
    if not governor:
        return Check(
            "governor", Level.OK, "not visible here (a virtual machine or container): the host decides"
        )
    if governor == "performance" or driver in _SELF_REGULATING:
        return Check("governor", Level.OK, f"{governor} ({driver})")
    advice = f"times will wander; as root: echo performance | tee {_CPUS}/cpu*/cpufreq/scaling_governor"
    return Check("governor", Level.WARNING, f"{governor} ({driver})", advice)


def check_load() -> Check:
    if not hasattr(os, "getloadavg"):
        return Check("load", Level.OK, "not known on this system")
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    text = f"{load:.2f} on {cores} processors over the last minute"
    if load > _BUSY * cores:
        return Check(
            "load", Level.WARNING, text, "other work makes times noisy; wait for quiet cores or stop it"
        )
    return Check("load", Level.OK, text)


def check_openmp() -> Check:
    from tunesmith.codegen.llvm import BuildError, load_openmp

    try:
        return Check("openmp", Level.OK, load_openmp())
    except BuildError as error:
        return Check("openmp", Level.WARNING, "not found: only single-threaded kernels work", str(error))


def check_c_compiler() -> Check:
    wanted = os.environ.get("CC", "cc")
    found = shutil.which(wanted) or shutil.which("gcc") or shutil.which("clang")
    if found:
        return Check("c compiler", Level.OK, found)
    advice = "tuning works without; to write shared libraries install one, e.g. apt-get install gcc libc6-dev"
    return Check("c compiler", Level.WARNING, f"no {wanted}, gcc or clang found", advice)


def check_cost_model() -> Check:
    from tunesmith.tuning.pretrained import pretrained

    found = pretrained()
    advice = "train one for this version, or unset TUNESMITH_MODEL" if not found.expected else ""
    return Check("cost model", Level.OK if found.expected else Level.WARNING, found.reason, advice)


def check_database(url: str | None) -> Check:
    from tunesmith.db import StoreError, open_store

    path = _file_of(url)
    if path is not None and not path.exists() and (url is None or path.parent.is_dir()):
        return Check("database", Level.OK, f"none yet; the first run creates {path}")
    try:
        with open_store(url, create=False) as store:
            store.ping()
            return Check("database", Level.OK, f"{store.url}, schema {_schema()}")
    except StoreError as error:
        return Check("database", Level.BROKEN, str(error), "name another with --db or TUNESMITH_DB")


def check_disk(url: str | None) -> Check:
    path = _file_of(url)
    if path is None:
        return Check("disk", Level.OK, "the database is on a server")
    folder = next(p for p in path.absolute().parents if p.exists())
    free = shutil.disk_usage(folder).free
    text = f"{format_bytes(free)} free at {folder}"
    if free < _FULL_BYTES:
        return Check("disk", Level.BROKEN, text, "make room, or name a database elsewhere with --db")
    if free < _LOW_BYTES:
        return Check("disk", Level.WARNING, text, "make room before long runs")
    return Check("disk", Level.OK, text)


def _schema() -> str:
    from tunesmith.db.revisions import HEAD

    return HEAD


def _file_of(url: str | None) -> Path | None:
    from tunesmith.db.urls import default_url, normalize, sqlite_path

    return sqlite_path(normalize(url or default_url()))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
