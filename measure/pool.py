"""Builds candidates in child processes, as many at a time as there are workers."""

import json
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
    """``n`` build workers on ``cpus`` (by default those that a run with one thread leaves).

    Jobs may be submitted at any time; ``poll`` gives results in the order they finish. Each worker is sent
    a few jobs ahead, so polling now and then is enough to keep it busy. Use from one thread.
    """

    def __init__(
        self, n: int, protocol: Protocol, *, cpus: tuple[int, ...] | None = None, builder: str = _BUILDER
    ) -> None:
        self._timeout_s = protocol.build_timeout_s
        cpus = split_cores(1).build if cpus is None else cpus
        self.crew = Crew(WorkerSpec("build", builder, cpus, _MEMORY_BYTES, _NICE), n, _DEPTH)

    def submit(
        self,
        key: Hashable,
        program: Mapping[str, Any],
        schedule: Mapping[str, Any],
        target: Mapping[str, Any],
    ) -> None:
        """Queue a candidate: program, schedule and target in their JSON form."""
        blobs = tuple(json.dumps(part).encode() for part in (program, schedule, target))
        self.crew.submit(Job(key, Message("build", {}, blobs), self._timeout_s))

    def poll(self, timeout_s: float = 0.0) -> list[BuildResult]:
        """Results so far; waits for the first at most ``timeout_s``."""
        return [_result(outcome) for outcome in self.crew.poll(timeout_s)]

    @property
    def pending(self) -> int:
        """Jobs whose result has not been polled."""
        return self.crew.pending

    def close(self) -> None:
        """End the workers; what is pending is dropped."""
        self.crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
