"""How many examples: in the suite some, the same every time; a campaign is asked for with
TUNESMITH_EXAMPLES=5000, which draws that many new ones."""

import os

from hypothesis import HealthCheck, settings

_CAMPAIGN = int(os.environ.get("TUNESMITH_EXAMPLES", "0"))


def examples(count: int) -> settings:
    """So many examples, the same every time; or those of a campaign."""
    return settings(
        max_examples=_CAMPAIGN or count,
        derandomize=not _CAMPAIGN,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
