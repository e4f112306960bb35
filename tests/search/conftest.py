"""Puts the modules beside these tests within reach."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for reaching
