"""The doctor's last check: a small search from end to end, in a database of its own."""

import tempfile
from pathlib import Path

from tunesmith.cli.checks import Check, Level
from tunesmith.cli.output import format_time

__all__ = ["check_self_test"]

_PROGRAM = """\
def self_test(a: f32[48, 64], b: f32[64, 40]):
    c[i, j] = sum(a[i, k] * b[k, j], k)
    return relu(c)
"""
_TRIALS = 4


def check_self_test() -> Check:
    """Compiles, runs and verifies a few candidates of a small product as a real run does."""
    from tunesmith.cli.progress import SilentView, Tally
    from tunesmith.db import open_store
    from tunesmith.ir import parse
    from tunesmith.tuning import tune
    from tunesmith.tuning.types import TuneOptions

    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "self-test.db") as store:
        options = TuneOptions(trials=_TRIALS, seconds=60)
        result = tune(
            parse(_PROGRAM),
            options,
            store,
            on_event=SilentView(tally),
            should_stop=lambda: False,
            job_id=None,
        )
    if result.best is None:
        worst = tally.errors.most_common(1)
        why = f"{worst[0][0][0].value}: {worst[0][0][1]}" if worst else "no candidate was tried"
        return Check(
            "self-test", Level.BROKEN, f"no candidate works; {why}", "report this line with the ones above"
        )
    text = f"{result.trials} candidates compiled, run and verified in {result.elapsed_s:.1f} s"
    return Check("self-test", Level.OK, f"{text}, the best takes {format_time(result.best.time_s)}")
