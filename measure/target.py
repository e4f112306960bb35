"""The machine as a target: what the system says, what LLVM calls it, and what it measures."""

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import tempfile
from dataclasses import asdict
from pathlib import Path

import platformdirs

import tunesmith
from tunesmith.ir.errors import TunesmithError
from tunesmith.measure.hardware import Hardware, hardware, on_cpus, split_cores
from tunesmith.records import Target

__all__ = ["detect_target", "vector_unit"]

_FORMAT = 1  # of the cache file


def detect_target(threads: int = 1, cache_path: Path | None = None, fresh: bool = False) -> Target:
    """This machine. Its peaks are measured once (about half a second) and kept in a file.

    ``cache_path`` is a folder, by default the user's cache folder for Tunesmith. A file that is missing,
    broken or of another machine or version is replaced; ``fresh`` measures in any case.
    """
    facts = hardware()
    if not 1 <= threads <= facts.cores:
        raise TunesmithError(f"{threads} threads asked for, but this process may use {facts.cores} cores")
    folder = cache_path or platformdirs.user_cache_path("tunesmith")
    file = folder / f"target-{_cache_key(facts)}.json"
    target = None if fresh else _load(file)
    if target is None:
        target = _measure(facts)
        _store(file, target)
    return target.with_threads(threads)


def vector_unit(arch: str, features: str) -> tuple[int, int]:
    """Bytes of a native vector and number of vector registers."""
    enabled = set(features.split(","))
    if "+avx512f" in enabled:
        return 64, 32
    if "+avx" in enabled:
        return 32, 16
    if arch in ("aarch64", "arm64") or "+v" in enabled:
        return 16, 32
    return 16, 16


def _cache_key(facts: Hardware) -> str:
    """Changes with the machine, this version and the installed llvmlite, which is not imported for it."""
    spec = importlib.util.find_spec("llvmlite")
    origin = Path(spec.origin) if spec and spec.origin else None
    llvmlite = origin.with_name("_version.py").stat().st_mtime_ns if origin else 0
    parts = [_FORMAT, tunesmith.__version__, llvmlite, platform.machine(), asdict(facts)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _load(file: Path) -> Target | None:
    try:
        data = json.loads(file.read_text())
        target = Target.from_json(data["target"])
        return target if data["fingerprint"] == target.fingerprint else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _store(file: Path, target: Target) -> None:
    """Write the whole file or nothing; a folder that cannot be written costs a measurement next time."""
    text = json.dumps({"fingerprint": target.fingerprint, "target": target.to_json()}, indent=2)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    except OSError:
        return
    try:
        with open(handle, "w") as out:
            out.write(text)
        os.replace(name, file)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _measure(facts: Hardware) -> Target:
    from tunesmith.codegen.llvm import host  # costs 80 ms, and mostly the file is there
    from tunesmith.measure.peaks import measure_peaks

    triple, cpu, features = host()
    vector_bytes, registers = vector_unit(triple.split("-", 1)[0], features)
    with on_cpus(split_cores(1).run):
        peaks = measure_peaks(triple, cpu, features, vector_bytes, facts)
    return Target(
        triple=triple,
        cpu=cpu,
        features=features,
        model=facts.model,
        cores=facts.cores,
        threads=1,
        l1d_bytes=facts.l1d_bytes,
        l2_bytes=facts.l2_bytes,
        l3_bytes=facts.l3_bytes,
        line_bytes=facts.line_bytes,
        vector_bytes=vector_bytes,
        vector_registers=registers,
        peaks=peaks,
    )
