"""A server or worker process with the made-up tuner:

python serve_fake.py URL PORT TRIAL_SECONDS [SETTING=VALUE…]; a PORT of "none" is a worker
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))

from fake_tuner import FakeTuner, artifact

from tunesmith.service import Settings, Tools, serve, work

url, port, trial_s, *more = sys.argv[1:]
tuner = FakeTuner(trial_s=float(trial_s))
changes = {name: type(getattr(Settings(url, None), name))(value) for name, value in (m.split("=") for m in more)}
settings = Settings(url, Tools(tuner, artifact), **changes)
if port == "none":
    sys.exit(work(settings))
serve(settings, "127.0.0.1", int(port))
