"""What a finished search prints: the kernel against its baselines, what failed, and what to do next."""

from collections.abc import Iterator

from tunesmith.cli.figures import threads_text
from tunesmith.cli.output import (
    format_bytes,
    format_count,
    format_percent,
    format_time,
    line,
    note,
    table,
)
from tunesmith.cli.progress import Tally
from tunesmith.cli.reasons import reason_text
from tunesmith.records import Lead, Record, Status
from tunesmith.tuning.types import StoppedBy, TuneResult

__all__ = ["print_result", "result_code"]

_SHOWN_ERRORS = 3
_ERROR_WIDTH = 160


def result_code(result: TuneResult) -> int:
    if result.stopped_by is StoppedBy.INTERRUPTED:
        return 130
    return 0 if result.best is not None else 1


def print_result(result: TuneResult, tally: Tally, *, again: str) -> None:
    """``again`` is the command that continues this search."""
    line(_headline(result))
    if result.best is not None:
        line()
        _times(result, result.best)
        if "next" in result.leads:
            line(_lead(result.leads["next"]))
    line()
    line(_effort(result))
    for text in _failures(result, tally):
        line(text)
    for reason in result.disabled_rules:
        line(f"sketch rule disabled for this program: {reason[:_ERROR_WIDTH]}")
    if result.best is not None:
        line(f"record {result.best.id}")
        line(f"next: tunesmith apply {result.best.id} -o DIR   writes a shared library and its C header")
    _advice(result, again)


def _headline(result: TuneResult) -> str:
    work, target = result.workload, result.target
    return (
        f"{work.name}: {work.dtype}, {format_count(work.flops)}, {format_bytes(work.min_bytes)} in and out"
        f" · {target.model}, {threads_text(target)}"
    )


def _times(result: TuneResult, best: Record) -> None:
    times = {"tuned": best.time_s, **result.baselines}
    peak = best.gflops / result.peak_fraction if result.peak_fraction else 0.0
    rows = []
    for name, time_s in times.items():
        gflops = result.workload.flops / time_s / 1e9
        rows.append(
            (
                name,
                format_time(time_s),
                f"{gflops:.1f}",
                format_percent(gflops / peak) if peak else "–",
                f"{result.workload.min_bytes / time_s / 1e9:.1f}",
                "" if name == "tuned" else f"{time_s / best.time_s:.2f}× the tuned time",
            )
        )
    table(("", "time", "GFLOP/s", "of peak", "GB/s", ""), rows, right=(1, 2, 3, 4))


def _lead(lead: Lead) -> str:
    """How sure it is that the winner is the winner."""
    span = f"{lead.low - 1:+.1%} to {lead.high - 1:+.1%}"
    if lead.is_sure:
        return f"{lead.ratio - 1:.1%} faster than the next best (95 % interval {span}, {lead.pairs} pairs)"
    return f"as fast as the next best, as far as {lead.pairs} pairs of samples tell ({span})"


def _effort(result: TuneResult) -> str:
    total = sum(result.times.values())
    shares = ", ".join(f"{k} {100 * v / total:.0f} %" for k, v in result.times.items()) if total > 0 else ""
    spent = f"{result.elapsed_s:.1f} s ({shares})" if shares else f"{result.elapsed_s:.1f} s"
    return f"{result.trials} trials in {spent}; stopped: {reason_text(result.stopped_by)}"


def _failures(result: TuneResult, tally: Tally) -> Iterator[str]:
    failed = {s: n for s, n in result.statuses.items() if s is not Status.OK and n}
    if not failed:
        return
    counts = ", ".join(f"{n} {s.value}" for s, n in sorted(failed.items(), key=lambda item: -item[1]))
    yield f"{sum(failed.values())} of {sum(result.statuses.values())} trials failed: {counts}"
    for (status, text), count in tally.errors.most_common(_SHOWN_ERRORS):
        yield f"  {count}× {status.value}: {text[:_ERROR_WIDTH]}"


def _advice(result: TuneResult, again: str) -> None:
    if result.stopped_by is StoppedBy.INTERRUPTED:
        note(f"interrupted; the {result.trials} finished trials are kept. To go on: {again}")
    elif result.best is None:
        note(
            "error: no candidate works. `tunesmith query --status STATUS` lists the faults in full,"
            " `tunesmith doctor` checks the machine"
        )
