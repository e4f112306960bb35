"""What commands print: one JSON object, aligned tables, and numbers with units."""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

__all__ = [
    "emit_json",
    "format_bytes",
    "format_count",
    "format_gflops",
    "format_percent",
    "format_time",
    "is_terminal",
    "line",
    "note",
    "sparkline",
    "table",
]

_BARS = "▁▂▃▄▅▆▇█"


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def emit_json(data: Any) -> None:
    """One object on one line of standard output. Infinities and NaN become null, as JSON has none."""
    sys.stdout.write(json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, default=str) + "\n")


def line(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A remark beside the result, on standard error."""
    sys.stderr.write(text + "\n")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Columns under headers; ``right`` are the columns that align to the right. Coloured on a terminal."""
    cells = [list(map(str, row)) for row in rows]
    if is_terminal(sys.stdout):
        _rich_table(headers, cells, set(right))
    else:
        _plain_table(headers, cells, set(right))


def _plain_table(headers: Sequence[str], rows: list[list[str]], right: set[int]) -> None:
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for row in [list(headers), *rows]:
        sized = enumerate(zip(row, widths, strict=True))
        cells = (cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in sized)
        line("  ".join(cells).rstrip())


def _rich_table(headers: Sequence[str], rows: list[list[str]], right: set[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for i, header in enumerate(headers):
        grid.add_column(header, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    Console().print(grid)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(k): _finite(v) for k, v in data.items()}
    return [_finite(v) for v in data] if isinstance(data, list | tuple) else data


def format_time(seconds: float | None) -> str:
    """Three significant digits and a unit: ``1.23 ms``."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{_three(seconds / scale)} {unit}"
    return f"{_three(seconds / 1e-9)} ns"


def format_gflops(gflops: float) -> str:
    return f"{_three(gflops)} GFLOP/s"


def format_percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def format_bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{_three(size)} {unit}"
        size /= 1024
    return f"{_three(size)} TiB"


def format_count(flops: float, unit: str = "FLOP") -> str:
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if flops >= scale:
            return f"{_three(flops / scale)} {prefix}{unit}"
    return f"{flops:g} {unit}"


def _three(value: float) -> str:
    """Three significant digits without an exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last value of each of ``width`` slices, drawn as bars between the smallest and the largest."""
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    picked = [values[(i + 1) * len(values) // count - 1] for i in range(count)]
    low, high = min(picked), max(picked)
    span = (high - low) or 1.0
    return "".join(_BARS[round((v - low) / span * (len(_BARS) - 1))] for v in picked)
