"""Runs candidates one at a time in a child process that has its core to itself."""

import signal
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from tunesmith.codegen.binary import Binary
from tunesmith.measure.crew import Crew, Failure, Job, Outcome
from tunesmith.measure.hardware import memory_total, split_cores
from tunesmith.measure.messages import Message, binary_to_json
from tunesmith.measure.process import WorkerSpec
from tunesmith.records import Measurement, Protocol, Status

__all__ = ["RunTask", "Runner", "patience_s"]

_DEPTH = 2
_START_S = 120.0
_SLOWER = 60  # times the fastest possible: what a candidate, or the reference, may take before it hangs
_LEAST_MEMORY_BYTES = 4 << 30  # of address space; most of it is never touched


@dataclass(frozen=True, slots=True)
class RunTask:
    """What all candidates of a runner compute. ``program`` is the JSON form, ``seed`` that of the inputs.

    A kernel faster than ``fastest_s`` is rejected as impossible (``fastest_possible_s`` gives a bound). One
    that takes a second at best is given a minute more than the protocol says.
    """

    program: Mapping[str, Any]
    seed: int = 0
    threads: int = 1
    fastest_s: float = 0.0


def patience_s(task: RunTask) -> float:
    """Seconds beside the protocol's for a candidate, and for the reference: nothing for small programs,
    minutes for the largest."""
    return _SLOWER * task.fastest_s


def _failed(failure: Failure, seconds: float) -> Measurement:
    if failure.timed_out:
        status = Status.RUN_TIMEOUT
    elif failure.signal in (signal.SIGSEGV, signal.SIGBUS):
        status = Status.OUT_OF_BOUNDS
    else:
        status = Status.RUN_ERROR
    return Measurement(status, error=failure.text, signal=failure.signal, run_s=seconds)


def _measurement(outcome: Outcome) -> Measurement:
    if outcome.failure is not None:
        return _failed(outcome.failure, outcome.seconds)
    assert outcome.answer is not None
    header = outcome.answer.header
    return replace(Measurement.from_json(header["result"]), run_s=header["seconds"])


def _environment(threads: int, cpus: Sequence[int]) -> dict[str, str]:
    """OpenMP's threads stay on the cores reserved for timing; how long they spin is left as users have it."""
    return {
        "OMP_NUM_THREADS": str(threads),
        "OMP_DYNAMIC": "false",
        "OMP_PROC_BIND": "true",
        "OMP_PLACES": ",".join(f"{{{cpu}}}" for cpu in cpus),
    }


class Runner:
    """One run worker for one task. Use from one thread; close it, or use it in a ``with`` statement.

    The worker computes the reference when it starts, and keeps it for its successors. While a race, a
    verification or NumPy is waited for, ``give_up`` is asked a few times a second whether to kill it.
    """

    def __init__(
        self,
        task: RunTask,
        protocol: Protocol,
        *,
        language: str = "tunesmith.ir",
        give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._give_up = give_up
        patience = patience_s(task)
        self._timeout_s = protocol.run_timeout_s + patience
        self._store = tempfile.TemporaryFile()  # noqa: SIM115 closed with the runner
        cpus = split_cores(task.threads).run
        greeting = Message(
            "task",
            {
                "program": dict(task.program),
                "seed": task.seed,
                "fastest_s": task.fastest_s,
                "protocol": protocol.to_json(),
            },
        )
        spec = WorkerSpec(
            "run",
            language,
            cpus,
            max(memory_total(), _LEAST_MEMORY_BYTES),
            environment=_environment(task.threads, cpus),
            greeting=greeting,
            store=self._store.fileno(),
            start_s=_START_S + patience,
        )
        self.crew = Crew(spec, 1, _DEPTH)
        self._aside: list[tuple[Hashable, Measurement]] = []

    def submit(self, key: Hashable, binary: Binary, best_s: float | None = None) -> None:
        """Queue a binary for verification and timing; ``best_s`` lets it be cut short."""
        fields = {"binary": binary_to_json(binary), "best_s": best_s}
        self.crew.submit(Job(key, Message("run", fields, (binary.object_code,)), self._timeout_s))

    def poll(self, timeout_s: float = 0.0) -> list[tuple[Hashable, Measurement]]:
        """Measurements so far, in the order of submission unless a worker died; waits for the first."""
        aside, self._aside = self._aside, []
        outcomes = self.crew.poll(0.0 if aside else timeout_s)
        return aside + [(o.key, _measurement(o)) for o in outcomes]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is being timed, nor about to be."""
        return self.crew.is_ready and not self.crew.pending

    @property
    def crews(self) -> tuple[Crew, ...]:
        return (self.crew,)

    @property
    def pending(self) -> int:
        """Jobs whose measurement has not been polled."""
        return self.crew.pending + len(self._aside)

    def _call(self, message: Message, timeout_s: float) -> Outcome:
        """Submit and wait; other outcomes that arrive meanwhile are kept for ``poll``."""
        mine = object()
        self.crew.submit(Job(mine, message, timeout_s))
        while True:
            for outcome in self.crew.poll(0.25):
                if outcome.key is mine:
                    return outcome
                self._aside.append((outcome.key, _measurement(outcome)))
            if self._give_up():
                self.suspend()
                return Outcome(mine, None, Failure(False, 0, "given up"), 0.0)

    def race(
        self, contestants: Sequence[tuple[Hashable, Binary]], rounds: int = 10
    ) -> dict[Hashable, Measurement]:
        """Time verified binaries against each other: one sample of each in turn, ``rounds`` times. Those that
        the fastest is not surely ahead of go on, up to four times as often: the winner is one of those with
        the most samples, and pairs of samples compare as far as both have them."""
        if not contestants:
            return {}
        binaries = [binary for _, binary in contestants]
        fields = {"binaries": [binary_to_json(b) for b in binaries], "rounds": rounds}
        message = Message("race", fields, tuple(b.object_code for b in binaries))
        outcome = self._call(message, self._timeout_s * len(binaries))
        header = outcome.answer.header if outcome.answer else {}
        if "times" not in header.get("result", {}):
            failed = _measurement(outcome)
            return {key: failed for key, _ in contestants}
        drift, seconds = header["result"]["drift"], header["seconds"] / len(binaries)
        return {
            key: Measurement(Status.OK, tuple(times), run_s=seconds, drift=drift)
            for (key, _), times in zip(contestants, header["result"]["times"], strict=True)
        }

    def verify(self, binary: Binary, seeds: Sequence[int], specials: bool = True) -> Measurement:
        """Compare with references on more inputs, and on such with zeros, denormals, NaN and infinities."""
        fields = {"binary": binary_to_json(binary), "seeds": list(seeds), "specials": specials}
        message = Message("verify", fields, (binary.object_code,))
        return _measurement(self._call(message, self._timeout_s * (len(seeds) + 2)))

    def numpy_time_s(self) -> float | None:
        """Seconds a call of the program evaluated with NumPy on the same core(s); None if that failed."""
        outcome = self._call(Message("numpy", {}), self._timeout_s)
        times = outcome.answer.header.get("result", {}).get("times") if outcome.answer else None
        return min(times) if times else None

    def suspend(self) -> None:
        """End the worker until ``resume`` or the next call; drops what is pending, keeps the reference."""
        self._aside.clear()
        self.crew.suspend()

    def resume(self) -> None:
        """Start the worker ahead of the next call."""
        self.crew.resume()

    def close(self) -> None:
        """End the worker; what is pending is dropped."""
        self.crew.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
