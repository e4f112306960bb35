"""True times from code that may be wrong: target, isolated builders and runners, verification, timing.

    target = detect_target(threads)
    with BuildPool(n, protocol) as pool, Runner(RunTask(program), protocol) as runner:
        pool.submit(key, program, schedule, target)      → pool.poll()   → BuildResult…
        runner.submit(key, binary, best_s)               → runner.poll() → (key, Measurement)…
        runner.race(…), runner.verify(…)                   before anything is called best

A candidate that crashes, hangs, leaves its buffers or answers wrongly is a result with a status. Only
``WorkerError`` is raised: no worker can be started at all.
"""

from tunesmith.measure.crew import WorkerError
from tunesmith.measure.hardware import CoreSplit, reserved_cores, split_cores
from tunesmith.measure.pool import BuildPool, BuildResult
from tunesmith.measure.reference import tolerance
from tunesmith.measure.runner import Runner, RunTask
from tunesmith.measure.target import detect_target
from tunesmith.measure.timing import fastest_possible_s
from tunesmith.measure.waiting import wait_any

__all__ = [
    "BuildPool",
    "BuildResult",
    "CoreSplit",
    "RunTask",
    "Runner",
    "WorkerError",
    "detect_target",
    "fastest_possible_s",
    "reserved_cores",
    "split_cores",
    "tolerance",
    "wait_any",
]
