"""How many samples are taken, and of how many calls. The clock is a fake."""

import os
import time
from collections.abc import Callable

import pytest

from tunesmith.ir.dtypes import DType
from tunesmith.measure import fastest_possible_s
from tunesmith.measure.timing import Sampler, contenders, kernel_clock, time_calls, timing_lock
from tunesmith.records import Peaks, Protocol


class Machine:
    """A kernel of known speed on a clock of its own."""

    def __init__(self, call_s: float) -> None:
        self.call_s = call_s
        self.now_s = 0.0
        self.batches: list[int] = []

    def run(self, n: int) -> None:
        self.batches.append(n)
        self.now_s += n * self.call_s


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Machine]:
    def make(call_s: float) -> Machine:
        m = Machine(call_s)
        monkeypatch.setattr(time, "perf_counter", lambda: m.now_s)
        monkeypatch.setattr(time, "perf_counter_ns", lambda: round(m.now_s * 1e9))
        return m

    return make


Make = Callable[[float], Machine]


@pytest.mark.parametrize("call_s", [1e-8, 1e-6, 1e-4, 1e-2, 0.09])
def test_samples_are_long_enough_and_right(machine: Make, call_s: float) -> None:
    m, p = machine(call_s), Protocol()
    times = time_calls(m.run, p)
    assert times == pytest.approx([call_s] * p.samples, rel=1e-3)
    assert all(n * call_s >= p.sample_s for n in m.batches[-p.samples :])
    assert m.now_s < p.samples * max(2 * p.sample_s, call_s) + 4 * max(p.sample_s, call_s)


def test_a_kernel_of_no_measurable_time(machine: Make) -> None:
    m = machine(1e-12)
    assert len(time_calls(m.run, Protocol())) == 10


@pytest.mark.parametrize(
    ("call_s", "samples"), [(1.0e-3, 10), (1.001e-3, 10), (1.1e-3, 5), (1.4e-3, 3), (1.6e-3, 2), (1.0, 2)]
)
def test_slow_candidates_are_cut(machine: Make, call_s: float, samples: int) -> None:
    m = machine(call_s)
    assert len(time_calls(m.run, Protocol(), best_s=1e-3)) == samples


def test_a_very_slow_kernel_runs_a_few_times_only(machine: Make) -> None:
    m = machine(2.0)
    times = time_calls(m.run, Protocol())
    assert len(times) == 3 and len(m.batches) <= 4


def test_cold_calls_are_flushed_and_single(machine: Make) -> None:
    m = machine(1e-5)
    flushed: list[int] = []
    p = Protocol(cache="cold", samples=5)
    times = time_calls(m.run, p, flush=lambda: flushed.append(len(m.batches)))
    assert times == pytest.approx([1e-5] * 5, rel=1e-3)
    assert set(m.batches) == {1}
    assert flushed == [1, 2, 3, 4, 5]


def test_the_clock_of_a_kernel() -> None:
    assert kernel_clock(Protocol(), parallel=True) is time.perf_counter_ns
    assert kernel_clock(Protocol(cache="cold"), parallel=False) is time.perf_counter_ns
    clock = kernel_clock(Protocol(), parallel=False)
    assert clock() <= clock()


def test_the_cache_mode_is_checked() -> None:
    with pytest.raises(ValueError, match="lukewarm"):
        Sampler(lambda n: None, Protocol(cache="lukewarm"))


def test_the_roofline() -> None:
    peaks = Peaks(100.0, 50.0, 200, 100, 50, 20)
    assert fastest_possible_s(130_000_000_000, DType.F32, peaks, 1) == pytest.approx(1.0)
    assert fastest_possible_s(130_000_000_000, DType.F64, peaks, 4) == pytest.approx(0.5)


def test_only_one_holds_the_machine(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with timing_lock(0.0) as first, timing_lock(0.01) as second:
        assert first and not second
    with timing_lock(0.0) as again:
        assert again


def test_a_folder_without_room_for_the_lock(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: os.path.join(str(tmp_path), "gone"))
    with timing_lock(0.0) as held:
        assert not held


def test_a_race_goes_on_between_those_that_may_win() -> None:
    fast, slow = [1.0, 1.1] * 5, [1.5, 1.6] * 5
    assert contenders([fast[:9], fast[:9], slow[:9]], 10) == [0, 1, 2], "all, for so many rounds"
    assert contenders([fast, fast[::-1], slow], 10) == [0, 1], "what is surely behind has had its chance"
    assert contenders([fast, slow, slow], 10) == [], "the winner is known"
    assert contenders([4 * fast, 4 * fast[::-1], slow], 10) == [], "as good as each other"
    assert contenders([fast[:4], fast[:4]], 4) == [0, 1], "too few pairs to tell"
    assert contenders([fast], 10) == []
