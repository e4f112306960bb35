"""Running in a child process: what wrong code does is found out, named, and survived."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from stand_ins import (
    ABORT,
    FINITE_ONLY,
    HANG,
    WORSE_EACH_TIME,
    binary,
    compiled,
    double,
    other,
    packed_binary,
    specs,
    two_thread_binary,
)

from tunesmith.codegen.binary import Binary
from tunesmith.ir import program_to_json
from tunesmith.measure import Runner, RunTask, WorkerError, split_cores
from tunesmith.measure.hardware import allowed_cores
from tunesmith.records import Measurement, Protocol, Status

Collect = Callable[[Any, int], list[Any]]
N = 100
PROGRAM = {"n": N}


@pytest.fixture(scope="module")
def runner(brisk: Protocol) -> Iterator[Runner]:
    with Runner(RunTask(PROGRAM), brisk, language="stand_ins") as runner:
        yield runner


@pytest.fixture
def run(runner: Runner, collect: Collect) -> Callable[..., Measurement]:
    def run(binary: Binary, best_s: float | None = None) -> Measurement:
        runner.submit("key", binary, best_s)
        ((key, measurement),) = collect(runner, 1)
        assert key == "key"
        return measurement

    return run


def test_a_right_kernel_is_timed(run: Callable[..., Measurement], brisk: Protocol) -> None:
    m = run(binary(N))
    assert m.status is Status.OK and m.error == ""
    assert len(m.times_s) == brisk.samples and 0 < m.time_s < 1e-3
    assert m.max_error == 0.0 and m.tolerance is not None and 0 < m.tolerance < 1e-5
    assert m.drift > 0 and m.run_s > 0


def test_packed_and_temporary_buffers(run: Callable[..., Measurement]) -> None:
    assert run(packed_binary()).status is Status.OK


def test_a_slow_kernel_is_cut_short(run: Callable[..., Measurement]) -> None:
    assert len(run(binary(N), best_s=1e-12).times_s) == 2


UNLINKABLE = "declare void @gone()\ndefine void @ts_run(ptr %b) {\n call void @gone()\n ret void\n}"
WRONG = {
    "value": (binary(N, factor=3.0), "wrong_answer", "100 of 100 values are wrong"),
    "missing": (binary(N, last=N - 1), "wrong_answer", "y[99] is nan (never written)"),
    "past end": (binary(N, last=N + 1), "out_of_bounds", "SIGSEGV while verifying"),
    "before start": (binary(N, first=-1), "out_of_bounds", "wrote outside y"),
    "input": (binary(N, to="%x"), "out_of_bounds", "SIGSEGV while verifying"),
    "abort": (other(N, ABORT), "run_error", "SIGABRT while verifying"),
    "hang": (other(N, HANG), "run_timeout", "no answer after 2 s while verifying"),
    "garbage": (Binary(b"garbage", specs(N)), "run_error", "BuildError: cannot load object code"),
    "much garbage": (Binary(b"x" * 1_000_000, specs(N)), "run_error", "cannot load object code"),
    "no entry": (Binary(compiled("declare void @ts_run(ptr)"), specs(N)), "run_error", "cannot link ts_run"),
    "unlinkable": (other(N, UNLINKABLE), "run_error", "cannot link ts_run"),
}


@pytest.mark.parametrize(("kernel", "status", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_kernel_is_named(
    run: Callable[..., Measurement], kernel: Binary, status: str, words: str
) -> None:
    m = run(kernel)
    assert m.status.value == status, m.error
    assert words in m.error
    assert m.times_s == ()
    assert run(binary(N)).ok


def test_a_crash_loses_no_other_job(runner: Runner, collect: Collect) -> None:
    right, wrong = binary(N), binary(N, last=N + 1)
    for key, kernel in enumerate([right, wrong, right, wrong, wrong, right]):
        runner.submit(key, kernel)
    found = {key: m.status.value for key, m in collect(runner, 6)}
    bad = "out_of_bounds"
    assert found == {0: "ok", 1: bad, 2: "ok", 3: bad, 4: bad, 5: "ok"}


def test_jobs_behind_one_that_hurts_the_worker_run_elsewhere(runner: Runner, collect: Collect) -> None:
    before = runner.crew.pids
    for key, kernel in enumerate([binary(N, first=-1), binary(N), binary(N)]):
        runner.submit(key, kernel)
    found = {key: m.status.value for key, m in collect(runner, 3)}
    assert found == {0: "out_of_bounds", 1: "ok", 2: "ok"}
    assert runner.crew.pids != before


def test_a_worker_killed_from_outside_loses_nothing(runner: Runner, collect: Collect) -> None:
    for key in range(4):
        runner.submit(key, binary(N))
    os.kill(runner.crew.pids[0], signal.SIGKILL)
    assert all(m.ok for _, m in collect(runner, 4))


def test_a_race_measures_all(runner: Runner, collect: Collect) -> None:
    runner.submit("before", binary(N))
    raced = runner.race([("a", binary(N)), ("b", packed_binary())], rounds=4)
    assert list(raced) == ["a", "b"] and all(m.ok for m in raced.values())
    a, b = (len(m.times_s) for m in raced.values())
    assert a == b and 4 <= a <= 16, "pairs, and more of them while the two cannot be told apart"
    assert [key for key, _ in collect(runner, 1)] == ["before"]
    assert runner.race([], rounds=4) == {}


def test_a_race_survives_a_contestant_that_crashes(runner: Runner) -> None:
    raced = runner.race([("a", binary(N)), ("b", other(N, ABORT))], rounds=2)
    assert {m.status for m in raced.values()} == {Status.RUN_ERROR}
    assert runner.race([("a", binary(N))], rounds=2)["a"].ok


def test_the_winner_is_verified_on_more_inputs(runner: Runner) -> None:
    assert runner.verify(binary(N), [1, 2]).ok
    assert runner.verify(binary(N, FINITE_ONLY), [1, 2], specials=False).ok
    m = runner.verify(binary(N, FINITE_ONLY), [1, 2])
    assert m.status is Status.WRONG_ANSWER and "specials" in m.error


def test_a_kernel_that_is_right_only_once_is_wrong(run: Callable[..., Measurement]) -> None:
    m = run(other(N, WORSE_EACH_TIME))
    assert m.status is Status.WRONG_ANSWER and m.error.startswith("after many calls: y[0]")
    assert run(binary(N)).ok


def test_a_program_in_its_own_json_form(brisk: Protocol, collect: Collect) -> None:
    with Runner(RunTask(program_to_json(double(N))), brisk) as runner:
        runner.submit(0, binary(N))
        ((_, m),) = collect(runner, 1)
    assert m.ok


def test_impossible_speed_is_rejected(brisk: Protocol, collect: Collect) -> None:
    with Runner(RunTask(PROGRAM, fastest_s=1.0), brisk, language="stand_ins") as runner:
        runner.submit(0, binary(N))
        ((_, m),) = collect(runner, 1)
    assert m.status is Status.REJECTED and "roofline" in m.error


def test_large_programs_are_given_time(brisk: Protocol, collect: Collect) -> None:
    """A product of 2 TFLOP takes twenty seconds at best: the protocol's time-out alone would fail all."""
    hurried = replace(brisk, run_timeout_s=1e-6)
    with Runner(RunTask(PROGRAM, fastest_s=1.0), hurried, language="stand_ins") as runner:
        runner.submit(0, binary(N))
        ((_, m),) = collect(runner, 1)
    assert m.status is Status.REJECTED


def test_cold_caches(brisk: Protocol, collect: Collect) -> None:
    with Runner(RunTask(PROGRAM), replace(brisk, cache="cold"), language="stand_ins") as runner:
        runner.submit(0, binary(N))
        ((_, m),) = collect(runner, 1)
        raced = runner.race([(0, binary(N))], rounds=2)
    assert m.ok and len(m.times_s) == brisk.samples
    assert raced[0].ok


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="needs two cores")
def test_two_threads(brisk: Protocol, collect: Collect) -> None:
    with Runner(RunTask(PROGRAM, threads=2), brisk, language="stand_ins") as runner:
        runner.submit(0, two_thread_binary())
        ((_, m),) = collect(runner, 1)
        affinity = os.sched_getaffinity(runner.crew.pids[0])
    assert m.ok, m.error
    assert affinity <= set(split_cores(2).run)


def test_a_program_that_cannot_be_read_is_an_error(brisk: Protocol, collect: Collect) -> None:
    with Runner(RunTask({"m": 1}), brisk, language="stand_ins") as runner:
        runner.submit(0, binary(N))
        with pytest.raises(WorkerError, match="KeyError: 'n'"):
            collect(runner, 1)


def test_closing_ends_a_hanging_worker(brisk: Protocol, wait_dead: Callable[..., list[int]]) -> None:
    runner = Runner(RunTask(PROGRAM), brisk, language="stand_ins")
    pids = runner.crew.pids
    runner.submit(0, other(N, HANG))
    runner.close()
    assert wait_dead(pids) == []


def test_a_suspended_runner_starts_again(brisk: Protocol, collect: Collect) -> None:
    with Runner(RunTask(PROGRAM), brisk, language="stand_ins") as runner:
        runner.submit("lost", binary(N))
        runner.suspend()
        assert runner.crew.pids == () and runner.pending == 0
        assert runner.poll() == []
        runner.submit("next", binary(N))
        ((key, measurement),) = collect(runner, 1)
        assert key == "next" and measurement.ok
        runner.suspend()
        runner.resume()
        assert len(runner.crew.pids) == 1
