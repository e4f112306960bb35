"""Builds candidates in child processes, as many at a time as there are workers."""

import json
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tunesmith.codegen.binary import Binary
from tunesmith.measure.crew import Crew, Job, Outcome
from tunesmith.measure.hardware import split_cores
from tunesmith.measure.messages import Message, binary_from_json
from tunesmith.measure.process import WorkerSpec
from tunesmith.records import Protocol, Status

__all__ = ["BuildPool", "BuildResult"]

_BUILDER = "tunesmith.measure.build_role:build_candidate"
_MEMORY_BYTES = 8 << 30  # of address space
_NICE = 5
_DEPTH = 3
_MANY = 4  # cores on which enough is built for one that runs
_AHEAD = 2  # jobs of a worker, before others get some


@dataclass(frozen=True, slots=True)
class BuildResult:
    """``binary`` is there when ``status`` is ok; otherwise ``error`` says what was wrong."""

    key: Hashable
    binary: Binary | None
    status: Status
    error: str
    seconds: float


def _result(outcome: Outcome) -> BuildResult:
    if outcome.failure is not None:
        status = Status.BUILD_TIMEOUT if outcome.failure.timed_out else Status.BUILD_ERROR
        return BuildResult(outcome.key, None, status, outcome.failure.text, outcome.seconds)
    assert outcome.answer is not None
    header = outcome.answer.header
    if outcome.answer.kind == "failed":
        return BuildResult(outcome.key, None, Status.BUILD_ERROR, header["error"], header["seconds"])
    binary = binary_from_json(header["binary"], outcome.answer.blobs[0])
    return BuildResult(outcome.key, binary, Status.OK, "", header["seconds"])


class BuildPool:
    """``n`` build workers on ``cpus`` (by default those that a run with one thread leaves), and one on each
    of the ``shared`` ones, which ``pause`` stops while something is timed there.

    Jobs may be submitted at any time; ``poll`` gives results in the order they finish. Workers are sent a
    job or two ahead, so polling now and then is enough to keep them busy. Use from one thread.
    """

    def __init__(
        self, n: int, protocol: Protocol, *, cpus: tuple[int, ...] | None = None,
        shared: tuple[int, ...] = (), builder: str = _BUILDER,
    ) -> None:  # fmt: skip
        self._timeout_s = protocol.build_timeout_s
        cpus = split_cores(1).build if cpus is None else cpus
        self.crew = Crew(WorkerSpec("build", builder, cpus, _MEMORY_BYTES, _NICE), n, _DEPTH)
        self._sharing: Crew | None = None
        if shared:
            spec = WorkerSpec("build", builder, shared, _MEMORY_BYTES, _NICE)
            self._sharing = Crew(spec, len(shared), depth=1)
        self._room = n * _AHEAD, len(shared)
        self._waiting: deque[Job] = deque()
        self._paused = False

    @staticmethod
    def beside_runs(threads: int, protocol: Protocol) -> "BuildPool":
        """Workers on all cores that runs leave, and where these are few, on those of the runs as well."""
        split = split_cores(threads)
        both = tuple(cpu for cpu in split.run if cpu not in split.build)
        few = len(split.build) < _MANY
        return BuildPool(len(split.build), protocol, cpus=split.build, shared=both if few else ())

    @property
    def crews(self) -> tuple[Crew, ...]:
        return (self.crew,) if self._sharing is None else (self.crew, self._sharing)

    def submit(
        self,
        key: Hashable,
        program: Mapping[str, Any],
        schedule: Mapping[str, Any],
        target: Mapping[str, Any],
    ) -> None:
        """Queue a candidate: program, schedule and target in their JSON form."""
        blobs = tuple(json.dumps(part).encode() for part in (program, schedule, target))
        self._waiting.append(Job(key, Message("build", {}, blobs), self._timeout_s))
        self._dispatch()

    def _dispatch(self) -> None:
        """Jobs go to the workers that are always there, and where these have enough to the others."""
        room, more = self._room
        while self._waiting:
            if self.crew.pending < room:
                self.crew.submit(self._waiting.popleft())
            elif self._sharing is not None and not self._paused and self._sharing.pending < more:
                self._sharing.submit(self._waiting.popleft())
            else:
                return

    def pause(self) -> None:
        """Leave the shared cores alone, until ``resume``."""
        self._paused = True
        if self._sharing is not None:
            self._sharing.hold()

    def resume(self) -> None:
        self._paused = False
        if self._sharing is not None:
            self._sharing.release()
        self._dispatch()

    def poll(self, timeout_s: float = 0.0) -> list[BuildResult]:
        """Results so far; waits for the first at most ``timeout_s``."""
        outcomes = [] if self._sharing is None else self._sharing.poll()
        outcomes += self.crew.poll(0.0 if outcomes else timeout_s)
        self._dispatch()
        return [_result(outcome) for outcome in outcomes]

    @property
    def pending(self) -> int:
        """Jobs whose result has not been polled."""
        return len(self._waiting) + sum(crew.pending for crew in self.crews)

    def close(self) -> None:
        """End the workers; what is pending is dropped."""
        self._waiting.clear()
        for crew in self.crews:
            crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
