"""What names a program, and what is said when it does not."""

import io
import json
from pathlib import Path

import pytest
from cli_samples import ADD

from tunesmith.cli.errors import UsageError
from tunesmith.cli.sources import LocatedError, is_program, load_program, select
from tunesmith.ir.errors import LimitError, ProgramError

TWO = "def one(a: f32[4]):\n    return relu(a)\n\ndef two(a: f32[4]):\n    return exp(a)\n"
MODULE = '''\
"""A module around a kernel."""
import os
import tunesmith

HERE = os.getcwd()

def helper():
    return open("/nonexistent")

@tunesmith.kernel
def scaled(a: f32[8, 8]):
    return a * 2.0

raise SystemExit("a file that is run would end here")
'''


@pytest.mark.parametrize("word", ["-", "x.py", "a/b.txt::name", "matmul(1,2,3)", " softmax (3, 4)"])
def test_programs_are_told_from_ids(word: str) -> None:
    assert is_program(word)


@pytest.mark.parametrize("word", ["0123456789abcdef", "0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee", "matmul", ""])
def test_ids_are_no_programs(word: str) -> None:
    assert not is_program(word)


def test_the_chosen_function_keeps_its_lines() -> None:
    text, name = select(TWO, "two")
    assert name == "two"
    assert text.split("\n")[3:5] == TWO.split("\n")[3:5]
    assert text.count("\n") == TWO.count("\n")
    assert "relu" not in text


def test_code_around_a_kernel_is_left_out_and_not_run() -> None:
    text, name = select(MODULE, None)
    assert name == "scaled"
    assert [line for line in text.split("\n") if line] == ["def scaled(a: f32[8, 8]):", "    return a * 2.0"]


def test_lines_are_counted_as_python_does() -> None:
    """A form feed or U+2028 within a comment or string is no end of a line for the parser."""
    text = f"# \f \u2028\n{ADD}"
    assert select(text, None)[0].split("\n")[1].startswith("def add")


def test_several_functions_need_a_name() -> None:
    with pytest.raises(ProgramError, match=r"FILE\.py::name, of one, two"):
        select(TWO, None)
    with pytest.raises(ProgramError, match="no function 'three'; there are one, two"):
        select(TWO, "three")


@pytest.mark.parametrize(
    ("text", "line"),
    [("x = 1\n", 0), ("", 0), ("def f(:\n", 1), ("x = 1\n  y = 2\n", 2), ("def f():\0", 0), ("(" * 5000, 0)],
)
def test_text_that_is_no_program_is_a_program_error(text: str, line: int) -> None:
    with pytest.raises(ProgramError) as caught:
        select(text, None)
    assert not line or caught.value.line == line


def test_a_file_gives_its_program(program_file: Path) -> None:
    assert load_program(str(program_file)).name == "add"
    assert load_program(f"{program_file}::add") == load_program(str(program_file))


def test_a_file_with_windows_line_ends_or_a_mark_reads_the_same(tmp_path: Path, program_file: Path) -> None:
    other = tmp_path / "other.py"
    other.write_bytes(b"\xef\xbb\xbf" + ADD.replace("\n", "\r\n").encode())
    assert load_program(str(other)) == load_program(str(program_file))


def test_standard_input_gives_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(ADD))
    assert load_program("-").name == "add"


def test_an_operator_gives_a_program() -> None:
    assert load_program("matmul(8,16,4)").outputs


def test_what_is_no_program_says_what_would_be() -> None:
    with pytest.raises(UsageError, match=r"give FILE\.py, FILE\.py::name"):
        load_program("nonsense")


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        load_program(str(tmp_path / "none.py"))
    with pytest.raises(UsageError, match="folder"):
        load_program(f"{tmp_path}::name")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "image.py"
    path.write_bytes(b"\xff\xd8\xff")
    with pytest.raises(LocatedError, match="not UTF-8"):
        load_program(str(path))


def test_huge_files_are_not_read() -> None:
    with pytest.raises(ProgramError, match="more than") as caught:
        load_program("/dev/zero::x")
    assert isinstance(caught.value.__cause__ or caught.value, LimitError | LocatedError)


def test_an_error_points_at_its_place(run, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("# a comment\ndef bad(a: f32[4]):\n    return a + missing\n")
    outcome = run("tune", str(path))
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert lines[0].startswith(f"error: {path}:3:")
    assert "missing" in lines[0]
    assert lines[1] == "      return a + missing"
    assert lines[1][lines[2].index("^") :].startswith("missing")


def test_an_error_is_json_when_asked_for(run, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def bad(a: f32[4]):\n    return a + missing\n")
    outcome = run("best", str(path), "--json")
    error = json.loads(outcome.out)["error"]
    assert outcome.code == 2
    assert (error["type"], error["source"], error["line"]) == ("ProgramError", str(path), 2)
    assert error["text"] == "    return a + missing"


def test_bad_input_writes_nothing(run, tmp_path: Path) -> None:
    database = tmp_path / "new.db"
    path = tmp_path / "bad.py"
    path.write_text("def bad(a: f32[0]):\n    return a\n")
    assert run("tune", str(path), "--db", f"sqlite:///{database}").code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.py"]


def test_the_examples_are_programs() -> None:
    examples = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
    programs = {path.stem: load_program(str(path)) for path in examples}
    assert set(programs) == {"bert_ffn", "resnet_conv", "softmax"}
    assert programs["softmax"].tensors[programs["softmax"].outputs[0]].shape == (1536, 128)
    assert [t.const for t in programs["bert_ffn"].inputs] == [False, True, True]
