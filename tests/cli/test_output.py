"""Numbers with units, tables and JSON."""

import json

import pytest

from tunesmith.cli.output import emit_json, format_bytes, format_count, format_time, sparkline, table


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.5, "2.50 s"),
        (1.0, "1.00 s"),
        (0.0123456, "12.3 ms"),
        (4.2e-5, "42.0 µs"),
        (1.5e-9, "1.50 ns"),
        (123.0, "123 s"),
        (float("inf"), "–"),
        (None, "–"),
    ],
)
def test_times(seconds: float | None, text: str) -> None:
    assert format_time(seconds) == text


def test_sizes_and_counts() -> None:
    assert format_bytes(0) == "0 B"
    assert format_bytes(1536) == "1.50 KiB"
    assert format_bytes(1 << 45) == "32.0 TiB"
    assert format_count(268_435_456) == "268 MFLOP"
    assert format_count(12) == "12 FLOP"


def test_sparkline_keeps_the_ends_and_the_width() -> None:
    line = sparkline([float(i) for i in range(1000)], 40)
    assert len(line) == 40
    assert (line[0], line[-1]) == ("▁", "█")
    assert sparkline([1.0, 1.0], 40) == "▁▁"
    assert sparkline([], 40) == ""


def test_plain_tables_align(capsys: pytest.CaptureFixture[str]) -> None:
    table(("name", "time"), [("a", "1 ms"), ("longer", "12 ms")], right=(1,))
    assert capsys.readouterr().out == "name     time\na        1 ms\nlonger  12 ms\n"


def test_tables_without_rows_show_the_headers(capsys: pytest.CaptureFixture[str]) -> None:
    table(("name", "time"), [])
    assert capsys.readouterr().out == "name  time\n"


def test_rich_tables_show_markup_as_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunesmith.cli.output.is_terminal", lambda stream: True)
    table(("error",), [("[bold]index [0] out of bounds",)])
    assert "[bold]index [0] out of bounds" in capsys.readouterr().out


def test_json_has_no_infinities(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"a": float("inf"), "b": [float("nan"), 1.5], "c": "µ"})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": "µ"}
