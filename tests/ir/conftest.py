"""Programs to test with: a lowering that does nothing clever, and random programs for Hypothesis."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for ir_samples
