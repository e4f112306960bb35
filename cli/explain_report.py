"""An explanation as text: headline, stages and terms, roofline, the model's corrections, what to change."""

from collections.abc import Iterator, Sequence

from tunesmith.cli.figures import threads_text
from tunesmith.cli.output import format_bytes, format_count, format_percent, format_time, line, table
from tunesmith.costmodel.bound import Bound
from tunesmith.costmodel.explain import Correction, Explanation
from tunesmith.costmodel.phrases import TERMS
from tunesmith.costmodel.stagetime import StageTime
from tunesmith.tuning import Explained

__all__ = ["print_explained"]

_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_SHORT = {
    "arithmetic": "arith", "latency": "waits", "overhead": "loops",
    "l1": "L2→L1", "l2": "L3→L2", "l3": "mem→L3",
}  # fmt: skip
_LEAST = 0.005  # of the time: smaller stages are counted, not listed
_FORMULA = 100  # characters


def print_explained(explained: Explained) -> None:
    e = explained.explanation
    line(_headline(explained))
    line(_origin(explained))
    stages = [s for s in e.stages if s.share >= _LEAST]
    line()
    for stage in stages:
        line(f"{stage.name}: {_cut(stage.formula)}")
    line()
    _print_terms(e, stages)
    line()
    _print_figures(e, stages)
    line()
    line(_roofline(e.bound))
    for text in _corrections(explained):
        line(text)
    line()
    line("to go faster:")
    for advice in e.advice:
        most = f" (at most {format_percent(advice.saves)} of the time)" if advice.saves >= 0.01 else ""
        line(f"  {advice.stage}: {advice.text}{most}")


def _headline(explained: Explained) -> str:
    e = explained.explanation
    bound = f"no schedule takes less than {format_time(e.bound.time_s)}"
    if explained.measured_s is None:
        return f"{explained.name}: {format_time(e.predicted_s)} predicted; {bound}"
    off = _change(e.predicted_s / explained.measured_s - 1)
    return (
        f"{explained.name}: {format_time(explained.measured_s)} measured, {format_time(e.predicted_s)} "
        f"predicted ({off}); {bound}"
    )


def _origin(explained: Explained) -> str:
    record, target = explained.record, explained.target
    where = f"{target.model}, {threads_text(target)}"
    if record is None:
        return f"a prediction: nothing is measured yet, this is what the model would try first on {where}"
    if not record.measurement.ok:
        reason = record.measurement.error.strip().split("\n", 1)[0]
        return f"record {record.id} failed: {record.measurement.status.value} {reason[:60]} ({where})"
    return f"record {record.id}, trial {record.trial}, {where}"


def _print_terms(e: Explanation, stages: Sequence[StageTime]) -> None:
    """Terms overlap: each is what a stage would take by it alone."""
    unit, scale = next(u for u in _UNITS if e.prior_s >= 10 * u[1] or u is _UNITS[-1])
    line(f"where the time goes, in {unit} (each term by itself; they overlap, and * binds)")
    terms = [t for t in TERMS if any(s.terms[t].alone_s for s in stages)]
    headers = ("stage", "time", "share", *map(_short_name, terms))
    rows = [
        (s.name, _short(s.time_s / scale), format_percent(s.share), *(_cell(s, t, scale) for t in terms))
        for s in stages
    ]
    table(headers, rows, right=range(1, len(headers)))
    hidden = [s for s in e.stages if s.share < _LEAST]
    if hidden:
        what = "stage takes" if len(hidden) == 1 else "stages take"
        line(f"{len(hidden)} more {what} {format_percent(sum(s.share for s in hidden))} of the time")


def _cell(stage: StageTime, term: str, scale: float) -> str:
    alone = stage.terms[term].alone_s
    mark = "*" if term == stage.binding else " "
    return f"{_short(alone / scale) if alone else '–'}{mark}"


def _short_name(term: str) -> str:
    return _SHORT.get(term, term)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _print_figures(e: Explanation, stages: Sequence[StageTime]) -> None:
    headers = ("stage", "bound by", "loads/FMA", "registers", "unrolled", "passes", "lanes", "wasted")
    rows = [
        (
            s.name,
            _binding(s),
            f"{s.loads_per_fma:.2f}" if s.reduces else "–",
            f"{s.accumulators:.0f} of {e.registers}" if s.reduces else "–",
            f"{s.unrolled:.0f}",
            f"{s.passes:,.0f}",
            f"{s.lanes_used:.0%}",
            f"{s.wasted:.1%}",
        )
        for s in stages
    ]
    table(headers, rows, right=range(2, len(headers)))


def _binding(stage: StageTime) -> str:
    if stage.runner_up is None or stage.margin is None:
        return _short_name(stage.binding)
    return f"{_short_name(stage.binding)}, {stage.margin:.1f} × {_short_name(stage.runner_up)}"


def _roofline(bound: Bound) -> str:
    names = {"arithmetic": "FMA peak", "memory": "memory"}
    times = [
        f"{names.get(t, t.upper())} {format_time(s)}{' *' if t == bound.by else ''}"
        for t, s in bound.times_s.items()
        if s
    ]
    return (
        f"roofline: {format_count(bound.flops)} needed, {format_bytes(bound.bytes)} in and out: "
        f"{', '.join(times)}"
    )


def _corrections(explained: Explained) -> Iterator[str]:
    e = explained.explanation
    yield f"prior: {format_time(e.prior_s)} from the terms above"
    if e.pretrained is None:
        yield f"pretrained: {explained.model}"
    else:
        yield from _correction("pretrained", e.pretrained, explained.model)
    if e.learnt is not None:
        yield from _correction("learnt", e.learnt, f"from {e.learnt.trials} other trials of this program")
    elif explained.record is not None:
        yield "learnt: nothing, there are too few other trials of this program"


def _correction(name: str, c: Correction, source: str) -> Iterator[str]:
    yield f"{name}: {_change(c.change)}, {source}"
    for effect in c.effects:
        yield f"  {_change(effect.change):>8}  {effect.phrase}"
    yield f"  {_change(c.rest):>8}  other features"
    yield f"  {_change(c.constant):>8}  whatever the candidate"


def _change(share: float) -> str:
    return f"{100 * share:+.1f} %"


def _cut(text: str) -> str:
    return text if len(text) <= _FORMULA else text[: _FORMULA - 1] + "…"
