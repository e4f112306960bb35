"""Why a search ended, in words. Without imports: a service's jobs are told of without a tuner."""

__all__ = ["reason_text"]

_REASONS = {  # by the values of StoppedBy
    "trials": "the number of trials is reached",
    "seconds": "the time is up",
    "plateau": "nothing better has turned up for a while",
    "roofline": "the machine's limit leaves little to gain",
    "exhausted": "every candidate is measured",
    "interrupted": "interrupted",
    "failures": "no candidate works",
    "tasks": "each of the programs has ended by itself",
}


def reason_text(stopped_by: str) -> str:
    """That of a newer version, which is not known here, as it is."""
    return _REASONS.get(stopped_by, stopped_by)
