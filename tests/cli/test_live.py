"""The live panel, drawn to a buffer instead of a terminal."""

import io

import pytest
from cli_samples import make_record
from rich.console import Console

from tunesmith.cli import live
from tunesmith.cli.progress import Tally
from tunesmith.records import Status
from tunesmith.tuning.types import Event


def drawn(tally: Tally, message: str = "") -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(live.render(tally, message))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_panel_shows_counter_times_curve_and_failures() -> None:
    tally = Tally()
    slow, fast = make_record(4e-4), make_record(1e-4)
    failed = make_record(status=Status.BUILD_ERROR, error="[red]no such register[/red]")
    tally.add(Event("search", 1, 64, 0.5, slow, slow, untuned_s=4e-4))
    tally.add(Event("search", 2, 64, 1.0, failed, slow, untuned_s=4e-4))
    tally.add(Event("search", 3, 64, 1.5, fast, fast, untuned_s=4e-4))
    text = drawn(tally, "[brackets] are text")
    for part in ("3/64 trials", "1.5 s", "100 µs", "20.0 GFLOP/s", "20.0 % of peak", "4.00× untuned"):
        assert part in text
    assert "untuned" in text
    assert "▁▁█" in text
    assert "2 ok" in text
    assert "1 build_error" in text
    assert "[brackets] are text" in text


def test_panel_before_anything_is_known() -> None:
    tally = Tally()
    assert drawn(tally).strip() == ""
    tally.add(Event("start", 0, None, 0.0))
    assert "0 trials" in drawn(tally)


def test_view_counts_events_between_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)  # no frame is ever due
    tally = Tally()
    best = make_record()
    with live.live_view(tally) as view:
        for trial in range(1, 6):
            view(Event("search", trial, 64, 0.1, make_record(1.0), best))
    assert tally.statuses[Status.OK] == 5
    assert len(tally.curve) == 5
