"""Building in child processes: every way a candidate can fail is a result."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from stand_ins import binary

from tunesmith.measure import BuildPool, WorkerError
from tunesmith.records import Protocol, Status

Collect = Callable[[Any, int], list[Any]]
PROGRAM = {"n": 100}


@pytest.fixture(scope="module")
def pool(brisk: Protocol) -> Iterator[BuildPool]:
    with BuildPool(1, brisk, builder="stand_ins:build") as pool:
        yield pool


def do(pool: BuildPool, *schedules: dict[str, Any]) -> None:
    for key, schedule in enumerate(schedules):
        pool.submit(key, PROGRAM, schedule, {})


def test_builds_a_binary(pool: BuildPool, collect: Collect) -> None:
    do(pool, {})
    (result,) = collect(pool, 1)
    assert (result.key, result.status, result.error) == (0, Status.OK, "")
    assert result.binary == binary(100)
    assert result.seconds > 0


def test_chatter_does_no_harm(pool: BuildPool, collect: Collect) -> None:
    do(pool, {"do": "chatter"}, {})
    assert [r.status for r in collect(pool, 2)] == [Status.OK, Status.OK]


def test_an_illegal_step_is_a_short_error(pool: BuildPool, collect: Collect) -> None:
    do(pool, {"do": "illegal"})
    (result,) = collect(pool, 1)
    assert result.status is Status.BUILD_ERROR
    assert result.error == "IllegalStep: split(i, 0): a factor is at least 1"


def test_an_unexpected_error_comes_with_its_trace(pool: BuildPool, collect: Collect) -> None:
    do(pool, {"do": "bug"})
    (result,) = collect(pool, 1)
    assert result.status is Status.BUILD_ERROR
    assert "KeyError: 'an error nobody expects'" in result.error and "stand_ins.py" in result.error


def test_crashes_and_hangs_cost_only_their_own_job(pool: BuildPool, collect: Collect) -> None:
    do(pool, {}, {"do": "crash"}, {}, {"do": "exit"}, {"do": "hang"}, {})
    results = {r.key: r for r in collect(pool, 6)}
    assert [results[k].status.value for k in range(6)] == [
        "ok", "build_error", "ok", "build_error", "build_timeout", "ok",
    ]  # fmt: skip
    assert "SIGABRT" in results[1].error
    assert "exit code 7" in results[3].error
    assert results[4].error == "no answer after 2 s"


def test_a_worker_killed_from_outside_loses_nothing(pool: BuildPool, collect: Collect) -> None:
    do(pool, {}, {}, {}, {}, {})
    for pid in pool.crew.pids:
        os.kill(pid, signal.SIGKILL)
    assert {r.status for r in collect(pool, 5)} == {Status.OK}


def test_a_stopped_worker_times_out(pool: BuildPool, collect: Collect) -> None:
    do(pool, {})
    collect(pool, 1)
    os.kill(pool.crew.pids[0], signal.SIGSTOP)
    do(pool, {}, {})
    results = collect(pool, 2)
    assert [r.status.value for r in results] == ["build_timeout", "ok"]


def test_several_workers_share_the_queue(brisk: Protocol, collect: Collect) -> None:
    with BuildPool(2, brisk, builder="stand_ins:build") as pool:
        do(pool, *[{}] * 12)
        assert pool.pending == 12
        assert sorted(r.key for r in collect(pool, 12)) == list(range(12))
        assert pool.pending == 0 and pool.poll(5.0) == []


def test_shared_cores_build_except_while_something_is_timed(brisk: Protocol, collect: Collect) -> None:
    """Stopped for longer than a job may take, a worker goes on afterwards: the pause counts for nothing."""
    hurried = replace(brisk, build_timeout_s=1.5)
    with BuildPool(1, hurried, shared=(0,), builder="stand_ins:build") as pool:
        do(pool, *[{}] * 8)
        collect(pool, 8)
        do(pool, *[{}] * 8)
        pool.pause()
        assert len(pool.crews) == 2
        before = collect(pool, 7)
        time.sleep(1.6)
        late = pool.poll()
        assert len(late) + pool.pending <= 1, "at most the job that the stopped worker had"
        pool.resume()
        results = before + late + collect(pool, pool.pending)
        assert [r.status.value for r in results] == ["ok"] * 8
    with BuildPool(1, brisk, shared=(0,), builder="stand_ins:build") as pool:
        pool.pause()
        do(pool, *[{}] * 4)
        assert len(collect(pool, 4)) == 4, "the others do it all"


def test_a_worker_that_cannot_start_is_an_error(brisk: Protocol, collect: Collect) -> None:
    with BuildPool(1, brisk, builder="no_such_module:build") as pool:
        do(pool, {})
        with pytest.raises(WorkerError, match="No module named 'no_such_module'"):
            collect(pool, 1)


def test_closing_ends_the_workers(brisk: Protocol, wait_dead: Callable[..., list[int]]) -> None:
    pool = BuildPool(2, brisk, builder="stand_ins:build")
    pids = pool.crew.pids
    do(pool, {"do": "hang"})
    pool.close()
    pool.close()
    assert wait_dead(pids) == []
    with pytest.raises(ValueError):
        do(pool, {})
