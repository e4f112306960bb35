"""The quick lookup answers as the store does."""

from pathlib import Path

import db_samples as samples
import pytest

from tunesmith.db import Match, open_store, quick_best
from tunesmith.records import Target

OTHERS = [samples.target(threads=2), samples.target(cpu="icelake-server"), samples.target(model="Xeon 2")]
HASH = samples.WORKLOAD.hash


@pytest.mark.parametrize("target", [None, samples.TARGET, samples.TARGET.fingerprint, *OTHERS, "unknown"])
@pytest.mark.parametrize("within", list(Match))
def test_it_answers_as_the_store_does(tmp_path: Path, target: Target | str | None, within: Match) -> None:
    path = tmp_path / "test.db"
    with open_store(path) as store:
        records = [samples.record(1e-3 * i, target=t) for i, t in enumerate([samples.TARGET, *OTHERS], 1)]
        store.add_all([*records, samples.record(None)])
        store.set_race({records[0].id: 5e-3})
        assert quick_best(path, HASH, target, within) == store.best(HASH, target, within)
        assert quick_best(path, "unknown", target, within) is None
