"""Random programs and schedules for Hypothesis."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the modules beside the tests
