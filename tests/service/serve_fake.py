"""A server or worker process with the made-up tuner:

python serve_fake.py URL PORT TRIAL_SECONDS [SETTING=VALUE…]; a PORT of "none" is a worker
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))

from fake_tuner import FakeTuner, artifact

from tunesmith.service import Settings, Tools, serve, work

url, port, trial_s, *more = sys.argv[1:]
tuner = FakeTuner(trial_s=float(trial_s))
settings = Settings(url, Tools(tuner, artifact))
given = dict(pair.split("=") for pair in more)
settings = replace(settings, **{n: type(getattr(settings, n))(v) for n, v in given.items()})
if port == "none":
    sys.exit(work(settings))
serve(settings, "127.0.0.1", int(port))
