"""What the operating system says of the CPU: model, caches, and the cores this process may use."""

import contextlib
import math
import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "CoreSplit",
    "Hardware",
    "allowed_cores",
    "hardware",
    "memory_available",
    "memory_total",
    "on_cpus",
    "reserved_cores",
    "split_cores",
]

_CPU = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")
_FALLBACK_CACHES = {"l1d_bytes": 32 << 10, "l2_bytes": 512 << 10, "l3_bytes": 8 << 20, "line_bytes": 64}


@dataclass(frozen=True, slots=True)
class Hardware:
    """``cores`` are physical ones this process may use; cache sizes as one core sees them, 0 if absent.

    ``identity`` is text that changes when the CPU or its features do.
    """

    model: str
    identity: str
    cores: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    line_bytes: int


@dataclass(frozen=True, slots=True)
class CoreSplit:
    """Logical CPUs for timing, one for each thread, and those for everything else."""

    run: tuple[int, ...]
    build: tuple[int, ...]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _parse_list(text: str) -> tuple[int, ...]:
    """Numbers of a kernel list such as ``0-3,8``."""
    out: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        out.extend(range(int(first), int(last or first) + 1))
    return tuple(out)


def _parse_size(text: str) -> int:
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else 0


def _affinity() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _quota() -> float:
    """CPUs that the control group grants, infinite without a limit."""
    own = [line.split(":", 2) for line in _read(Path("/proc/self/cgroup")).splitlines()]
    paths = {kind: path.lstrip("/") for _, kind, path in (p for p in own if len(p) == 3)}
    for folder in {_CGROUP / paths.get("", ""), _CGROUP}:
        limit, _, period = _read(folder / "cpu.max").partition(" ")
        if limit.isdigit() and period.isdigit():
            return int(limit) / int(period)
    for folder in {_CGROUP / "cpu" / paths.get("cpu", ""), _CGROUP / "cpu"}:
        limit, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if limit.isdigit() and period.isdigit():
            return int(limit) / int(period)
    return math.inf


@cache
def allowed_cores() -> tuple[tuple[int, ...], ...]:
    """Logical CPUs this process might use when first asked, grouped by physical core."""
    allowed = _affinity()
    cores: dict[tuple[int, ...], list[int]] = {}
    for cpu in allowed:
        siblings = _parse_list(_read(_CPU / f"cpu{cpu}/topology/thread_siblings_list")) or (cpu,)
        cores.setdefault(siblings, []).append(cpu)
    return tuple(tuple(c) for c in cores.values())


def split_cores(threads: int) -> CoreSplit:
    """The last ``threads`` cores for timing (interrupts favour the first), the others for the rest.

    Where no core is left over, building shares them.
    """
    cores = allowed_cores()
    run, rest = cores[-threads:], cores[:-threads]
    spare = tuple(cpu for core in rest or cores for cpu in core)
    return CoreSplit(tuple(core[0] for core in run), spare)


@contextlib.contextmanager
def on_cpus(cpus: tuple[int, ...]) -> Iterator[None]:
    """Keep this thread, and threads and processes it starts, on these CPUs, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def reserved_cores(threads: int) -> contextlib.AbstractContextManager[None]:
    """Keep this thread off the cores that kernels with so many threads are timed on."""
    return on_cpus(split_cores(threads).build)


def _caches(cpu: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for index in sorted((_CPU / f"cpu{cpu}/cache").glob("index[0-9]*")):
        level, size = _read(index / "level"), _parse_size(_read(index / "size"))
        if _read(index / "type") == "Instruction" or level not in "123" or not size:
            continue
        found["l1d_bytes" if level == "1" else f"l{level}_bytes"] = size
        line = _read(index / "coherency_line_size")
        if line.isdigit():
            found["line_bytes"] = int(line)
    if "l1d_bytes" not in found:
        return _FALLBACK_CACHES
    return {"l2_bytes": _FALLBACK_CACHES["l2_bytes"], "l3_bytes": 0, "line_bytes": 64, **found}


def _sysctl(name: str) -> str:
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _mac(cores: int) -> Hardware:
    names = {"l1d_bytes": "hw.l1dcachesize", "l2_bytes": "hw.l2cachesize", "line_bytes": "hw.cachelinesize"}
    sizes = {k: int(text) for k, n in names.items() if (text := _sysctl(n)).isdigit()}
    model = _sysctl("machdep.cpu.brand_string") or platform.machine()
    return Hardware(model, model, cores, **{**_FALLBACK_CACHES, "l3_bytes": 0, **sizes})


def _cpuinfo() -> dict[str, str]:
    """Fields of the first processor of /proc/cpuinfo."""
    first = _read(Path("/proc/cpuinfo")).split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


_IDENTITY_FIELDS = (
    "vendor_id", "model name", "cpu family", "model", "stepping", "flags",
    "CPU implementer", "CPU part", "CPU variant", "Features", "isa", "uarch",
)  # fmt: skip


@cache
def hardware() -> Hardware:
    """Facts of this machine as this process sees them when first asked."""
    groups = allowed_cores()
    cores = max(1, min(len(groups), math.ceil(_quota()) if _quota() < math.inf else len(groups)))
    if platform.system() == "Darwin":
        return _mac(cores)
    info = _cpuinfo()
    identity = "\n".join(f"{k}={info[k]}" for k in _IDENTITY_FIELDS if k in info)
    part = " ".join(info[k] for k in ("CPU implementer", "CPU part") if k in info)
    model = info.get("model name") or info.get("uarch") or part or platform.machine()
    return Hardware(model, identity, cores, **_caches(groups[0][0]))


def _meminfo(field: str) -> int:
    """Bytes of a field of /proc/meminfo, 0 without one."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    return 0


def memory_total() -> int:
    """Bytes of memory this process could use at most: the machine's, or the control group's limit."""
    total = _meminfo("MemTotal") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    own = _read(Path("/proc/self/cgroup")).rpartition("::/")[2].split("\n")[0]
    for file in (_CGROUP / own / "memory.max", _CGROUP / "memory/memory.limit_in_bytes"):
        limit = _read(file)
        total = min(total, int(limit)) if limit.isdigit() else total
    return total


def memory_available() -> int:
    """Bytes that can be taken without swapping; half of all where the system does not say."""
    return min(_meminfo("MemAvailable") or memory_total() // 2, memory_total())
