"""The values that parts exchange: JSON forms, identities, statistics."""

import json
import uuid

import numpy as np
import pytest

from tunesmith.ir import DType
from tunesmith.records import Measurement, Peaks, Protocol, Status, Target, lead_of, new_id

PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)
TARGET = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "A CPU", 8, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16, PEAKS
)


def test_targets_round_trip() -> None:
    assert Target.from_json(json.loads(json.dumps(TARGET.to_json()))) == TARGET


def test_a_fingerprint_ignores_measured_peaks_but_not_threads() -> None:
    data = TARGET.to_json()
    data["peaks"]["f32_gflops"] = 97.0
    assert Target.from_json(data).fingerprint == TARGET.fingerprint
    assert TARGET.with_threads(2).fingerprint != TARGET.fingerprint


def test_lanes_follow_the_element_type() -> None:
    assert (TARGET.lanes(DType.F32), TARGET.lanes(DType.F64)) == (8, 4)


@pytest.mark.parametrize("status", list(Status))
def test_measurements_round_trip(status: Status) -> None:
    times = (1e-3, 1.1e-3) if status is Status.OK else ()
    m = Measurement(status, times, "text", 11, 0.1, 0.2, 1e-7, 1e-5, 0.98)
    assert Measurement.from_json(json.loads(json.dumps(m.to_json()))) == m


def test_a_failure_takes_for_ever() -> None:
    assert Measurement(Status.RUN_TIMEOUT).time_s == float("inf")


def test_the_median_and_the_spread() -> None:
    m = Measurement(Status.OK, (1.0, 2.0, 3.0, 4.0, 100.0))
    assert m.time_s == 3.0
    assert m.spread > 1


def test_protocols_round_trip() -> None:
    p = Protocol(cache="cold", samples=4)
    assert Protocol.from_json(json.loads(json.dumps(p.to_json()))) == p


def test_ids_are_version_7_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(200)]
    assert all(uuid.UUID(i).version == 7 for i in ids)
    assert [i[:13] for i in ids] == sorted(i[:13] for i in ids)


def test_a_lead_is_sure_only_where_the_pairs_agree() -> None:
    rng = np.random.default_rng(1)
    noise = rng.lognormal(0.0, 0.02, (2, 40))
    lead = lead_of(list(noise[0]), list(1.05 * noise[1]))
    assert lead is not None and lead.is_sure and lead.low < lead.ratio < lead.high
    even = lead_of(list(noise[0]), list(noise[1]))
    assert even is not None and not even.is_sure
    assert lead_of([1.0] * 5, [2.0] * 5) is None, "five pairs cannot tell"
    assert lead_of([1.0] * 6, [2.0] * 6) is not None


@pytest.mark.parametrize("n", [6, 10, 17, 40])
def test_the_interval_of_a_lead_holds_the_truth_as_often_as_it_says(n: int) -> None:
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(2000):
        lead = lead_of([1.0] * n, list(rng.lognormal(0.1, 0.3, n)))
        assert lead is not None
        held += lead.low <= np.exp(0.1) <= lead.high
    assert held >= 0.94 * 2000
