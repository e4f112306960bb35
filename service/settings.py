"""How a service is set up. Read once, where the process starts."""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunesmith.service.tools import Tools

__all__ = ["LOOPBACK", "Limits", "Settings", "cores_here"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def cores_here() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may ask for at most. ``program_flops`` and ``program_bytes`` (all tensors together)
    keep away what could not be measured anyway, but would take the machine's memory or days.

    Bodies are counted after decompression: ``upload_bytes`` of records, ``model_bytes`` of a model. The rates
    hold for each key, or address without one; the quotas (``jobs_per_key`` not done, and what is asked for
    or uploaded in a day) only for keys.
    """

    body_bytes: int = 1 << 20
    upload_bytes: int = 8 << 20
    upload_records: int = 500
    model_bytes: int = 1 << 20
    requests_per_s: float = 500.0
    requests_burst: float = 1000.0
    failures_per_s: float = 1.0
    failures_burst: float = 30.0
    jobs_per_key: int = 2000
    trials_per_day: int = 1_000_000
    bytes_per_day: int = 1 << 30
    text_bytes: int = 1 << 16
    threads: int = field(default_factory=cores_here)
    program_flops: int = 10**13
    program_bytes: int = 1 << 32


@dataclass(frozen=True, slots=True)
class Settings:
    """``hosts`` are the names under which the service may be addressed; ``any_address`` also allows IP
    addresses, which no foreign web page can pretend to be. Without ``require_key`` whoever sends none may do
    everything. Times in seconds: ``stop_s`` is how long a running job may take to finish what it measures
    when the process is to end. ``event_days`` is how long events of jobs are kept. ``alive_file`` is touched
    as long as a worker works."""

    url: str | None
    tools: "Tools"
    hosts: tuple[str, ...] = LOOPBACK
    any_address: bool = False
    limits: Limits = field(default_factory=Limits)
    require_key: bool = False
    run_jobs: bool = True
    poll_s: float = 2.0
    lease_s: float = 60.0
    progress_s: float = 0.5
    stop_s: float = 60.0
    sweep_s: float = 15.0
    event_poll_s: float = 0.2
    event_days: float = 7.0
    log_level: str = "info"
    log_format: str = "text"
    alive_file: str = ""
