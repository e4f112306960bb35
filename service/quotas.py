"""What one key may have at a time and in a day."""

from tunesmith.db import Store
from tunesmith.service.auth import Principal
from tunesmith.service.errors import QuotaExceeded
from tunesmith.service.settings import Limits

__all__ = ["check_jobs", "spend"]


def check_jobs(who: Principal, store: Store, limits: Limits, trials: int | None) -> None:
    """Raises ``QuotaExceeded`` when one more job of ``trials`` is too much."""
    if not who.has_quota:
        return
    open_jobs, asked = store.requests.job_load(who.owner)
    if open_jobs >= limits.jobs_per_key:
        raise QuotaExceeded(f"{open_jobs} jobs of this key are not done; {limits.jobs_per_key} may be", 60)
    if asked + (trials or 0) > limits.trials_per_day:
        raise QuotaExceeded(
            f"{asked} trials were asked for in 24 hours; {limits.trials_per_day} may be", 3600
        )


def spend(who: Principal, store: Store, limits: Limits, *, records: int = 0, size_bytes: int = 0) -> None:
    """Counts an upload. Raises ``QuotaExceeded``, and counts nothing, when it is too much."""
    if not who.has_quota:
        return
    used = store.requests.usage(who.owner)
    if used.size_bytes + size_bytes > limits.bytes_per_day:
        raise QuotaExceeded(
            f"{used.size_bytes} bytes were uploaded today; {limits.bytes_per_day} may be", 3600
        )
    if used.records + records > limits.trials_per_day:
        raise QuotaExceeded(
            f"{used.records} records were uploaded today; {limits.trials_per_day} may be", 3600
        )
    store.requests.spend(who.owner, records=records, size_bytes=size_bytes)
