"""A tuner without compiler: it makes its trials up, but keeps the contract of the real one."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import db_samples as samples

from tunesmith.db import Store
from tunesmith.ir import Program
from tunesmith.records import Record
from tunesmith.tuning import workload_of
from tunesmith.tuning.types import Event, Halt, Observer, StoppedBy, TuneOptions, TuneResult

TARGET = samples.TARGET


class FakeTuner:
    """A trial takes ``trial_s``; every ``fail_every``-th fails. Before each it waits until ``hold`` is set,
    as it is at first. ``fault`` is raised instead of a run."""

    def __init__(self, trial_s: float = 0.0, fail_every: int = 4) -> None:
        self.trial_s = trial_s
        self.fail_every = fail_every
        self.hold = threading.Event()
        self.hold.set()
        self.fault: Exception | None = None
        self.calls: list[TuneOptions] = []

    def __call__(
        self,
        program: Program,
        options: TuneOptions,
        store: Store,
        on_event: Observer,
        should_stop: Callable[[], int],
        job_id: str | None,
    ) -> TuneResult:
        self.calls.append(options)
        if self.fault is not None:
            raise self.fault
        workload, _ = workload_of(program)
        began = time.monotonic()
        known = store.history(workload.hash, TARGET.fingerprint)
        done = [r for r in known if not options.fresh or r.job_id == job_id]
        stopped = StoppedBy.TRIALS

        def emit(phase: str, record: Record | None = None) -> None:
            best = min((r for r in done if r.measurement.ok), key=lambda r: r.time_s, default=None)
            elapsed_s = time.monotonic() - began
            on_event(Event(phase, len(done), options.trials, elapsed_s, record, best, 1e-3 if done else None))

        emit("start")
        while options.trials is None or len(done) < options.trials:
            while not self.hold.wait(0.01) and not should_stop():
                pass
            if should_stop():
                stopped = StoppedBy.INTERRUPTED
                break
            time.sleep(self.trial_s)
            done.append(self._trial(len(done), workload, job_id, options))
            store.add(done[-1])
            emit("search", done[-1])
        halted = should_stop() >= Halt.PAUSE
        if not halted:
            emit("race")
        working = sorted((r for r in done if r.measurement.ok), key=lambda r: r.time_s)
        store.set_race({r.id: r.time_s * 1.1 for r in working[:2]}) if working and not halted else None
        emit("done")
        return TuneResult(
            workload=workload,
            target=TARGET,
            trials=len(done),
            statuses=dict(Counter(r.measurement.status for r in done)),
            stopped_by=stopped,
            elapsed_s=time.monotonic() - began,
            best=working[0] if working else None,
            baselines={"untuned": 1e-3},
            times={"build": 0.0, "run": 0.0, "search": 0.0, "other": 0.0},
        )

    def _trial(self, trial: int, workload: Any, job_id: str | None, options: TuneOptions) -> Record:
        failed = trial % self.fail_every == self.fail_every - 1
        return samples.record(
            None if failed else 1e-3 / (1 + trial),
            workload=workload,
            job_id=job_id,
            trial=trial,
            seed=options.seed,
            protocol=options.protocol,
        )


def artifact(record: Record, kind: str) -> bytes:
    return f"{kind} of {record.id}\n".encode()
