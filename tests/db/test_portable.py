"""Records out of one database and into another: nothing is lost, and nothing false gets in."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import db_samples as samples
import pytest
import real_records as real
import sqlalchemy as sa

from tunesmith.db import JobSpec, Store, open_store
from tunesmith.db.models import metadata
from tunesmith.ir import TunesmithError
from tunesmith.schedule import Schedule
from tunesmith.service.transfer import FORMAT, VERSION, Imported, Importer, line_of

NOT_CARRIED = ("job_id", "seq")  # jobs stay where they are
FINGERPRINT = samples.TARGET.fingerprint


def exported(store: Store, **filters: Any) -> list[bytes]:
    return [json.dumps(line_of(stored)).encode() for stored in store.export(**filters)]


def imported(store: Store, lines: Iterable[bytes | None]) -> Imported:
    importer = Importer(store)
    for _ in importer.take(lines):
        pass
    return importer.done


def rows(store: Store, table: str = "record") -> list[dict[str, Any]]:
    """As values of Python, which are the same whatever the database."""
    of = metadata.tables[table]
    left_out = NOT_CARRIED if table == "record" else ("created_at",)
    found = store._database.read(lambda session: session.rows(sa.select(of).order_by(of.c.id)))
    return [{name: row[name] for name in row if name not in left_out} for row in found]


def filled(url: str) -> Store:
    """Everything that a record can be, two races of which the first is over, and a job's records."""
    store = open_store(url)
    records = real.variety()
    store.add_all(records)
    store.set_race({records[0].id: 0.02, records[1].id: 0.025})
    store.set_race({records[1].id: 0.0201, records[2].id: 0.0202})
    store.set_race({records[7].id: 0.03})
    job = store.jobs.create(JobSpec(real.product(), {}, {}, 8))[0]
    store.add(real.record(12, job_id=job.id))
    return store


def test_round_trip(url: str, tmp_path: Path) -> None:
    """Every column of every table that is exported, through both kinds of database and back."""
    with filled(f"sqlite:///{tmp_path}/first.db") as first, open_store(url) as second:
        done = imported(second, exported(first))
        assert (done.new, done.known, done.refused.total()) == (13, 0, 0), done
        for table in ("record", "workload", "target"):
            assert rows(second, table) == rows(first, table)
        for cache in ("warm", "cold"):
            best = [s.best(real.product().hash, FINGERPRINT, cache=cache) for s in (first, second)]
            assert best[0] and best[1] and best[0].raced and best[0].time_s == best[1].time_s
        again = imported(second, exported(first))
        assert (again.new, again.known, again.races) == (0, 13, 0)
        assert rows(second, "workload") == rows(first, "workload")
        with open_store(f"{tmp_path}/third.db") as third:
            imported(third, exported(second))
            assert [json.loads(line) for line in exported(third)] == [
                json.loads(line) for line in exported(second)
            ]


def test_filters(url: str) -> None:
    with filled(url) as store:
        workload = real.product(96).hash
        assert len(exported(store, workload=workload)) == 1
        assert len(exported(store, target=FINGERPRINT)) == 12
        assert len(exported(store, status="build_timeout")) == 1


def test_many_pages(url: str, tmp_path: Path) -> None:
    with open_store(url) as store, open_store(f"{tmp_path}/other.db") as other:
        store.add_all(real.record(n % 5) for n in range(1203))
        done = imported(other, exported(store))
        assert done.new == 1203 and other.workloads().items[0].n_records == 1203


# -- races that meet ----------------------------------------------------------------------------------------


def test_the_later_race_counts(url: str, tmp_path: Path) -> None:
    with open_store(url) as store, open_store(f"{tmp_path}/other.db") as other:
        old, older = real.record(0), real.record(1)
        new = real.record(2)
        other.add_all([old, older])
        other.set_race({old.id: 0.02})
        store.add(new)
        store.set_race({new.id: 0.03})
        assert imported(store, exported(other)).races == 0
        best = store.best(real.product().hash)
        assert best and best.record.id == new.id and best.raced
        newest = real.record(3)
        other.add(newest)
        other.set_race({newest.id: 0.04, old.id: 0.05})
        assert imported(store, exported(other)).races == 1
        best = store.best(real.product().hash)
        assert best and best.record.id == newest.id


# -- files that lie -----------------------------------------------------------------------------------------


def changed(line: bytes, **changes: Any) -> bytes:
    document = json.loads(line)
    for path, value in changes.items():
        *parents, last = path.split("__")
        part = document
        for name in parents:
            part = part[name]
        part[last] = value
    return json.dumps(document).encode()


LIES: dict[str, dict[str, Any]] = {
    "faster than light": {"measurement__times_s": [1e-12]},
    "race faster than light": {"store__race_s": 1e-12, "store__raced": True},
    "no times": {"measurement__times_s": []},
    "no number": {"measurement__times_s": ["fast"]},
    "illegal schedule": {"schedule": {"version": 1, "steps": [["split", "t9", "i0", [4], "peel"]]}},
    "no schedule": {"schedule": {"steps": 7}},
    "no program": {"workload__program": {"name": "x"}},
    "other status": {"status": "fine", "measurement__status": "fine"},
    "future": {"created_at": "2999-01-01T00:00:00Z"},
    "no zone": {"created_at": "2026-01-01T00:00:00"},
    "id": {"id": "../../etc/passwd"},
    "peaks": {"target__peaks__f32_gflops": 1e30},
    "negative": {"trial": -1},
    "store": {"store": {"unknown": 1}},
    "store is a list": {"store": [1]},
    "negative race": {"store__race_s": -1.0},
    "another's program": {"store__program": real.product(96).program},
    "endless peaks": {"store__peaks": {**samples.TARGET.to_json()["peaks"], "l1_gbs": 1e300}},
}


@pytest.mark.parametrize("lie", LIES)
def test_lies(tmp_path: Path, lie: str) -> None:
    with open_store(f"{tmp_path}/a.db") as store, open_store(f"{tmp_path}/b.db") as other:
        store.add(real.record())
        done = imported(other, [changed(line, **LIES[lie]) for line in exported(store)])
        assert (done.new, done.refused.total(), len(done.examples)) == (0, 1, 1), done
        assert not other.workloads().items


def test_what_follows_is_computed(url: str, tmp_path: Path) -> None:
    with open_store(f"{tmp_path}/a.db") as store, open_store(url) as other:
        true = real.record()
        store.add(true)
        lies = {"workload__hash": "f" * 32, "workload__flops": 1, "schedule_hash": "x", "gflops": 1e9}
        done = imported(other, [changed(line, **lies) for line in exported(store)])
        assert done.new == 1 and other.get(true.id) == true


def test_an_id_is_taken_once(url: str) -> None:
    with open_store(url) as store:
        mine, other = real.record(0), real.record(1)
        store.add(mine)
        line = changed(exported(store)[0], schedule=other.schedule, store={"race_s": 0.02, "raced": True})
        done = imported(store, [line])
        assert done.refused == {"the id is that of another record": 1} and store.get(mine.id) == mine
        best = store.best(mine.workload.hash)
        assert best and not best.raced


def test_malformed_lines_are_counted(url: str, tmp_path: Path) -> None:
    with filled(f"sqlite:///{tmp_path}/a.db") as store, open_store(url) as other:
        lines = exported(store)
        noise: list[bytes | None] = [
            b"{", b"\xff\xfe", b"[1, 2]", b"7", b"null", b"[" * 100_000, b'{"id": 1e999}', lines[0][:200],
            None, b"", b'"' + b"x" * 1000 + b'"', b"1" * 5000,
        ]  # fmt: skip
        done = imported(other, [*noise, *lines])
        assert done.new == 13 and done.refused.total() == len(noise) - 1 and len(done.examples) == 10
        assert done.refused["the file is damaged here"] == 1


def test_headers(url: str) -> None:
    with open_store(url) as store:
        assert imported(store, [json.dumps({"format": FORMAT, "version": VERSION}).encode()]).new == 0
        for header in ({"format": FORMAT, "version": VERSION + 1}, {"format": "cake"}, {"format": FORMAT}):
            with pytest.raises(TunesmithError):
                imported(store, [json.dumps(header).encode()])


def test_failures_need_no_legal_schedule(url: str, tmp_path: Path) -> None:
    with open_store(f"{tmp_path}/a.db") as store, open_store(url) as other:
        failed = real.record(schedule={"version": 1, "steps": [["vectorize", "t0", "nowhere"]]})
        failed = replace(
            failed, measurement=samples.failed(), schedule_hash=Schedule.from_json(failed.schedule).hash
        )
        store.add(failed)
        assert imported(other, exported(store)).new == 1 and other.get(failed.id) == failed


# -- observations -------------------------------------------------------------------------------------------


def test_observations_are_never_served(url: str) -> None:
    seen = real.record(versions={"imported_from": "ansor"})
    with open_store(url) as store:
        store.add(seen)
        for target in (None, FINGERPRINT, samples.target(cpu="other")):
            assert store.best(seen.workload.hash, target) is None
        assert store.workloads().items[0].best_record_id is None
        with pytest.raises(TunesmithError, match="cannot race"):
            store.set_race({seen.id: 0.02})
        assert store.history(seen.workload.hash, FINGERPRINT) == [seen]
        assert exported(store)


# -- kills --------------------------------------------------------------------------------------------------


def test_a_killed_import_goes_on(url: str, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl.gz"
    with open_store(f"{tmp_path}/a.db") as store:
        records = [real.record(n % 5) for n in range(600)]
        store.add_all(records)
        store.set_race({records[0].id: 0.02, records[599].id: 0.021})
        file.write_bytes(gzip.compress(b"\n".join(exported(store))))
    command = [sys.executable, "-m", "tunesmith.cli.main", "db", "import", str(file), "--db", url]
    with open_store(url) as other:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            while process.poll() is None and not other.workloads().items:
                pass
            process.kill()
        summary = other.workloads().items[0]
        assert 0 < summary.n_records < 600, "killed midway"
        assert summary.n_records == len(list(other.export()))
        done = subprocess.run([*command, "--json"], capture_output=True, timeout=120, check=True)
        told = json.loads(done.stdout)
        assert told["new"] + told["known"] == 600 and told["known"] == summary.n_records
        assert other.workloads().items[0].n_records == 600
        best = other.best(real.product().hash)
        assert best and best.raced and best.record.id == records[0].id
