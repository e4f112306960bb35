"""A server process with the made-up tuner: python serve_fake.py URL PORT TRIAL_SECONDS [--require-key]"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))

from fake_tuner import FakeTuner, artifact

from tunesmith.service import Tools, serve

serve(
    "127.0.0.1",
    int(sys.argv[2]),
    sys.argv[1],
    tools=Tools(FakeTuner(trial_s=float(sys.argv[3])), artifact),
    require_key="--require-key" in sys.argv,
)
