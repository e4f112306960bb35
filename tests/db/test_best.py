"""What is served: the closest target's fastest record, and the latest race has the last word."""

import db_samples as samples
import pytest

from tunesmith.db import BadQuery, JobSpec, Match, NotFound, Order, Store, quick_best
from tunesmith.records import Protocol, Record

COLD = Protocol(cache="cold")
HASH = samples.WORKLOAD.hash
OTHER_MACHINE = samples.target(model="Xeon 2", l3_bytes=1)
OTHER_CPU = samples.target(cpu="icelake-server")
OTHER_THREADS = samples.target(threads=2)
OTHER_VECTORS = samples.target(cpu="haswell", vector_bytes=32)
OTHER_ARCH = samples.target(triple="aarch64-unknown-linux-gnu")


def served(store: Store, target: object = samples.TARGET, **kwargs: object) -> tuple[str, Match] | None:
    best = store.best(HASH, target, **kwargs)  # type: ignore[arg-type]
    return best and (best.record.id, best.match)


def add(store: Store, time_s: float | None, **changes: object) -> Record:
    record = samples.record(time_s, **changes)
    store.add(record)
    return record


def test_nothing_known(store: Store) -> None:
    assert served(store) is None
    assert served(store, None) is None
    assert served(store, "unknown") is None


def test_the_fastest_that_works(store: Store) -> None:
    add(store, 2e-3)
    fast = add(store, 1e-3)
    add(store, None)
    best = store.best(HASH, samples.TARGET)
    assert best is not None
    assert (best.record, best.match, best.time_s, best.raced) == (fast, Match.EXACT, 1e-3, False)
    assert best.gflops == pytest.approx(fast.gflops)
    assert served(store, samples.TARGET.fingerprint) == (fast.id, Match.EXACT)
    assert served(store, None) == (fast.id, Match.ANY)


def test_only_failures_is_nothing(store: Store) -> None:
    add(store, None)
    assert served(store) is None
    assert served(store, None) is None


def test_the_closest_target_wins_not_the_fastest(store: Store) -> None:
    levels = []
    for target in (OTHER_ARCH, OTHER_VECTORS, OTHER_THREADS, OTHER_CPU, OTHER_MACHINE, samples.TARGET):
        record = add(store, 1e-3 * (1 + len(levels)), target=target)
        levels.append(served(store))
        if target is not OTHER_ARCH and target is not OTHER_THREADS:
            assert levels[-1] is not None and levels[-1][0] == record.id
    matches = [level and level[1] for level in levels]
    assert matches == [None, *[Match.SAME_ARCH] * 3, Match.SAME_CPU, Match.EXACT]
    assert served(store, None) is not None


def test_how_loose_a_match_may_be(store: Store) -> None:
    add(store, 1e-3, target=OTHER_CPU)
    assert served(store, within=Match.EXACT) is None
    assert served(store, within=Match.SAME_CPU) is None
    assert served(store, within=Match.SAME_ARCH) is not None


def test_a_known_fingerprint_finds_similar_targets(store: Store) -> None:
    record = add(store, 1e-3, target=OTHER_MACHINE)
    assert served(store, samples.TARGET.fingerprint) is None
    store.add_target(samples.TARGET)
    assert served(store, samples.TARGET.fingerprint) == (record.id, Match.SAME_CPU)


def test_the_race_decides(store: Store) -> None:
    lucky, steady, unraced = add(store, 1.0e-3), add(store, 1.1e-3), add(store, 0.9e-3)
    store.set_race({lucky.id: 1.3e-3, steady.id: 1.2e-3})
    best = store.best(HASH, samples.TARGET)
    assert best is not None
    assert (best.record, best.time_s, best.raced) == (steady, 1.2e-3, True)
    page = store.records(workload=HASH, order=Order.TIME)
    assert [r.id for r in page.items] == [steady.id, lucky.id, unraced.id]
    assert store.summaries(workload=HASH, order=Order.TIME).items[0].gflops == pytest.approx(best.gflops)


def test_an_earlier_race_does_not_count(store: Store) -> None:
    """The machine was faster then: a loser of that race must not beat today's winner by its old time."""
    first, second, third = add(store, 1.0e-3), add(store, 1.1e-3), add(store, 1.2e-3)
    store.set_race({first.id: 1.00e-3, second.id: 1.01e-3})
    store.set_race({first.id: 1.50e-3, third.id: 1.40e-3})
    page = store.summaries(workload=HASH, order=Order.TIME)
    assert [s.id for s in page.items] == [third.id, first.id, second.id]
    assert page.items[2].race_s == 1.01e-3, "what was measured stays on record"


def test_races_are_by_target(store: Store) -> None:
    here, there = add(store, 1e-3), add(store, 1e-3, target=OTHER_CPU)
    store.set_race({here.id: 2e-3})
    store.set_race({there.id: 3e-3})
    best = store.best(HASH, samples.TARGET)
    assert best is not None and best.raced
    with pytest.raises(BadQuery, match="one workload, one target"):
        store.set_race({here.id: 1e-3, there.id: 1e-3})


def test_cold_and_warm_caches_do_not_mix(store: Store) -> None:
    """A kernel that loses with warm caches may win with cold ones: their times do not compare."""
    warm, cold = add(store, 2e-3), add(store, 1e-3, protocol=COLD)
    other = add(store, 3e-3, protocol=COLD, target=OTHER_CPU)

    for place, how in ((samples.TARGET, Match.EXACT), (None, Match.ANY)):
        assert served(store, place) == (warm.id, how)
        assert served(store, place, cache="cold") == (cold.id, how)
    assert served(store, OTHER_CPU) == (warm.id, Match.SAME_ARCH), "of another CPU, but warm"
    assert served(store, OTHER_CPU, cache="cold") == (other.id, Match.EXACT)
    quick = quick_best(store.url, HASH, samples.TARGET, cache="cold")
    assert quick is not None and quick.record == cold
    assert store.workloads().items[0].best_record_id == warm.id
    for cache, ids in {"warm": [warm.id], "cold": [cold.id, other.id]}.items():
        page = store.records(workload=HASH, order=Order.TIME, cache=cache)
        assert [r.id for r in page.items] == ids


def test_races_are_by_state_of_the_caches(store: Store) -> None:
    warm, cold = add(store, 2e-3), add(store, 1e-3, protocol=COLD)
    store.set_race({warm.id: 2e-3})
    store.set_race({cold.id: 1e-3})
    for cache in ("warm", "cold"):
        best = store.best(HASH, samples.TARGET, cache=cache)
        assert best is not None and best.raced, "the other's race took nothing from it"
    with pytest.raises(BadQuery, match="state of the caches"):
        store.set_race({warm.id: 1e-3, cold.id: 1e-3})


def test_a_race_needs_working_records(store: Store) -> None:
    broken = add(store, None)
    with pytest.raises(BadQuery, match="failed trial"):
        store.set_race({broken.id: 1e-3})
    with pytest.raises(NotFound):
        store.set_race({"nobody": 1e-3})
    with pytest.raises(BadQuery):
        store.set_race({})
    with pytest.raises(ValueError, match="not the time"):
        store.set_race({broken.id: float("inf")})


def test_the_winner_becomes_the_job_s_best(store: Store) -> None:
    job, _ = store.jobs.create(JobSpec(samples.WORKLOAD, {}, {}, trials=2))
    lucky, steady = add(store, 1.0e-3, job_id=job.id), add(store, 1.1e-3, job_id=job.id)
    store.set_race({lucky.id: 1.3e-3, steady.id: 1.2e-3}, job_id=job.id)
    after = store.jobs.get(job.id)
    assert (after.best_record_id, after.best_s) == (steady.id, 1.2e-3)
    assert after.version > job.version
