"""The values that the parts exchange: workloads, targets, measurements, records."""

from tunesmith.records.lead import Lead, lead_of
from tunesmith.records.measurement import Measurement, Protocol, Status
from tunesmith.records.record import Record, Workload, log_distance, new_id, utc_now
from tunesmith.records.target import Peaks, Target

__all__ = [
    "Lead",
    "Measurement",
    "Peaks",
    "Protocol",
    "Record",
    "Status",
    "Target",
    "Workload",
    "lead_of",
    "log_distance",
    "new_id",
    "utc_now",
]
