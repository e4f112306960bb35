"""Looking up: `best`, `query`, `show` and `apply` on a database with records."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_samples import TARGET, fill, make_record, make_workload

from tunesmith.cli.sources import load_program
from tunesmith.ir import workload_hash
from tunesmith.records import Record, Status

HASH = "0123456789abcdef"


@pytest.fixture
def filled(database: str) -> tuple[str, Record]:
    """A database with two working records and a failed one; the URL and the faster record."""
    best = make_record(1e-4, trial=2)
    fill(
        database,
        make_record(3e-4),
        make_record(status=Status.RUN_ERROR, error="signal 11\ntrace", trial=1),
        best,
    )
    return database, best


def test_best_by_hash(run, known_target, filled: tuple[str, Record]) -> None:
    url, best = filled
    outcome = run("best", HASH, "--db", url)
    assert outcome.code == 0
    assert "add: 100 µs, 20.0 GFLOP/s, 20.0 % of peak" in outcome.out
    assert "match exact: measured on this very kind of machine (Test CPU, 1 thread)" in outcome.out
    assert f"record {best.id}" in outcome.out


def test_best_by_program(run, known_target, program_file: Path, database: str) -> None:
    workload = make_workload(hash=workload_hash(load_program(str(program_file))))
    record = make_record(workload=workload)
    fill(database, record)
    found = json.loads(run("best", str(program_file), "--db", database, "--json").out)
    assert found["record"] == record.id
    assert found["match"] == "exact"
    assert found["time_s"] == pytest.approx(1e-4)
    assert found["peak_fraction"] == pytest.approx(0.2)
    assert found["target"] == TARGET.fingerprint


def test_best_by_record_is_the_best_of_its_workload(run, known_target, database: str) -> None:
    slow, fast = make_record(3e-4), make_record(1e-4)
    fill(database, slow, fast)
    assert json.loads(run("best", slow.id, "--db", database, "--json").out)["record"] == fast.id


def test_best_states_a_looser_match(run, known_target, filled: tuple[str, Record]) -> None:
    outcome = run("best", HASH, "--db", filled[0], "--threads", "2")
    assert "match same_arch: measured here for 1 thread; to tune for 2: --threads 2" in outcome.out


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_known_is_exit_3_and_says_what_to_do(
    run, known_target, program_file: Path, database: str, tmp_path: Path, exists: bool
) -> None:
    if exists:
        fill(database)
    outcome = run("best", str(program_file), *(("--db", database) if exists else ()))
    assert outcome.code == 3
    assert f"tunesmith tune {program_file}" in outcome.err
    assert not list((tmp_path / "data").rglob("*"))


def test_a_database_that_is_named_must_exist(run, known_target, program_file: Path, database: str) -> None:
    """A mistyped path is not an empty database."""
    outcome = run("best", str(program_file), "--db", database)
    assert outcome.code == 1
    assert "there is no database at" in outcome.err
    assert not Path(database.removeprefix("sqlite:///")).exists()


def test_unknown_ids_are_exit_3(run, known_target, filled: tuple[str, Record]) -> None:
    outcome = run("best", "ffffffffffffffff", "--db", filled[0], "--json")
    assert outcome.code == 3
    assert json.loads(outcome.out)["error"]["type"] == "NotFoundError"
    assert run("apply", "01900000-0000-7000-8000-000000000000", "--db", filled[0]).code == 3


def test_best_loads_no_heavy_library(filled: tuple[str, Record], tmp_path: Path) -> None:
    """Each of them costs more than the answer may take."""
    code = (
        "import sys; import tunesmith.cli.lookup as lookup; from cli_samples import TARGET\n"
        "for name in ('sqlalchemy', 'alembic'): sys.modules.pop(name, None)\n"
        "before = set(sys.modules)\n"
        "lookup.detect_target = TARGET.with_threads\n"
        "from tunesmith.cli.main import main\n"
        f"code = main(['best', '{HASH}', '--db', '{filled[0]}', '--json'])\n"
        "print(code, *{name.split('.')[0] for name in sys.modules if name not in before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parent,
    )
    code_text, *loaded = done.stdout.splitlines()[-1].split()
    assert code_text == "0", done.stderr
    assert not {"sqlalchemy", "alembic", "llvmlite", "xgboost", "fastapi", "rich", "typer"} & set(loaded)


def test_query_lists_workloads(run, filled: tuple[str, Record]) -> None:
    outcome = run("query", "--db", filled[0])
    header, row = outcome.out.splitlines()
    assert header.split() == ["workload", "hash", "type", "work", "records", "failed", "best", "GFLOP/s"]
    assert row.split() == ["add", HASH, "f32", "2.00", "MFLOP", "3", "1", "100", "µs", "20.0"]


def test_query_lists_records_in_order(run, filled: tuple[str, Record]) -> None:
    url, best = filled
    outcome = run("query", "--workload", HASH, "--order", "time", "--db", url)
    rows = outcome.out.splitlines()[1:]
    assert len(rows) == 2
    assert rows[0].startswith(best.id)


def test_query_by_status_shows_the_error(run, filled: tuple[str, Record]) -> None:
    outcome = run("query", "--status", "run_error", "--db", filled[0])
    assert outcome.out.splitlines()[1].endswith("signal 11")
    records = json.loads(run("query", "--status", "run_error", "--db", filled[0], "--json").out)["records"]
    assert [r["error"] for r in records] == ["signal 11\ntrace"]


def test_query_pages(run, filled: tuple[str, Record]) -> None:
    words = ("query", "--workload", HASH, "--limit", "2", "--db", filled[0], "--json")
    first = json.loads(run(*words).out)
    rest = json.loads(run(*words, "--cursor", first["next_cursor"]).out)
    ids = [r["id"] for r in first["records"] + rest["records"]]
    assert len(set(ids)) == 3
    assert rest["next_cursor"] is None


def test_query_that_cannot_be_answered_is_usage(run, filled: tuple[str, Record]) -> None:
    assert run("query", "--status", "ok", "--order", "time", "--db", filled[0]).code == 2
    assert run("query", "--status", "fine", "--db", filled[0]).code == 2


def test_query_without_a_database_says_so(run, database: str) -> None:
    outcome = run("query", "--db", database)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert not Path(database.removeprefix("sqlite:///")).exists()


@pytest.fixture
def artifacts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """`tunesmith.tuning.artifact` answers with its arguments, and they are kept."""
    calls: list[tuple[str, str, str]] = []

    def artifact(record: Record, kind: str, *, name: str) -> bytes:
        calls.append((record.id, kind, name))
        return f"{kind} of {name}".encode()

    monkeypatch.setattr("tunesmith.tuning.artifact", artifact, raising=False)
    return calls


def test_apply_writes_library_and_header(run, known_target, filled, artifacts, tmp_path: Path) -> None:
    out = tmp_path / "new" / "build"
    outcome = run("apply", HASH, "--db", filled[0], "-o", str(out))
    assert outcome.code == 0
    assert artifacts == [(filled[1].id, "library", "add"), (filled[1].id, "header", "add")]
    assert {p.name: p.read_text() for p in out.iterdir()} == {
        "libadd.so": "library of add",
        "add.h": "header of add",
    }
    assert f"wrote {out / 'libadd.so'} (14.0 B)" in outcome.out


def test_apply_calls_a_program_as_its_source_does(
    run, known_target, artifacts, program_file: Path, database: str, tmp_path: Path
) -> None:
    """Whoever tuned the same computation first may have called it otherwise."""
    workload = make_workload(hash=workload_hash(load_program(str(program_file))), name="other")
    fill(database, make_record(workload=workload))
    assert run("apply", str(program_file), "--db", database, "-o", str(tmp_path / "o")).code == 0
    assert {name for _, _, name in artifacts} == {"add"}


def test_apply_takes_kinds_and_a_name(run, known_target, filled, artifacts, tmp_path: Path) -> None:
    words = ("apply", filled[1].id, "--db", filled[0], "-o", str(tmp_path / "o"), "--json")
    outcome = run(*words, "--name", "mine", "--emit", "asm,llvm,object")
    files = [Path(f["path"]).name for f in json.loads(outcome.out)["files"]]
    assert files == ["mine.s", "mine.ll", "mine.o"]
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == sorted(files)


@pytest.mark.parametrize("words", [("--name", "../x"), ("--name", "9"), ("--emit", "elf"), ("--emit", "")])
def test_apply_refuses_what_cannot_be_written(run, filled, words: tuple[str, ...]) -> None:
    assert run("apply", HASH, "--db", filled[0], *words).code == 2


def test_apply_trusts_no_name_from_a_record(
    run, known_target, artifacts, database: str, tmp_path: Path
) -> None:
    fill(database, make_record(workload=make_workload(name="../../etc/päss")))
    run("apply", HASH, "--db", database, "-o", str(tmp_path / "o"), "--emit", "header")
    assert [p.name for p in (tmp_path / "o").iterdir()] == ["______etc_p_ss.h"]


def test_apply_leaves_nothing_behind_when_a_build_fails(
    run, known_target, filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tunesmith.ir.errors import TunesmithError

    def artifact(record: Record, kind: str, *, name: str) -> bytes:
        if kind == "header":
            raise TunesmithError("no C compiler: apt-get install gcc")
        return b"x"

    monkeypatch.setattr("tunesmith.tuning.artifact", artifact, raising=False)
    outcome = run("apply", HASH, "--db", filled[0], "-o", str(tmp_path / "o"))
    assert outcome.code == 1
    assert outcome.err == "error: no C compiler: apt-get install gcc\n"
    assert not (tmp_path / "o").exists()


@pytest.fixture
def describe(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def text(shown: Any, level: str, target: Any) -> str:
        return f"{type(shown).__name__} {level} {target and target.threads}\n"

    monkeypatch.setattr("tunesmith.tuning.describe", text, raising=False)
    return text


@pytest.mark.parametrize(
    ("level", "text"), [(None, "Program program None"), ("nest", "Program nest 1"), ("asm", "Program asm 1")]
)
def test_show_an_unknown_program(
    run, known_target, describe, program_file: Path, level: str | None, text: str
) -> None:
    outcome = run("show", str(program_file), *(("--level", level) if level else ()))
    assert outcome.out == f"{text}\n"
    assert ("untuned schedule" in outcome.err) == (level is not None)


def test_show_what_is_known(run, known_target, describe, filled) -> None:
    url, best = filled
    assert run("show", best.id, "--db", url).out == "Record record 1\n"
    assert json.loads(run("show", HASH, "--level", "llvm", "--db", url, "--json").out) == {
        "level": "llvm",
        "record": best.id,
        "text": "Record llvm 1\n",
    }


def test_show_the_record_of_an_unknown_program_is_not_found(
    run, known_target, describe, program_file: Path
) -> None:
    assert run("show", str(program_file), "--level", "record").code == 3


def test_fastest_first_needs_something_to_compare(run, filled: tuple[str, Record]) -> None:
    outcome = run("query", "--order", "time", "--db", filled[0])
    assert outcome.code == 2
    assert "--workload or --job" in outcome.err
