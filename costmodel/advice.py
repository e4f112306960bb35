"""What to change for a candidate to get faster, in words, from the terms that bind it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tunesmith.costmodel.phrases import TERMS
from tunesmith.costmodel.stagetime import StageTime

__all__ = ["Advice", "advise"]

_LEAST = 0.04  # of the whole: smaller savings are not worth a line
_LONG = 0.1  # of the whole: stages that are spoken of in any case
_MOST = 4  # of each kind
_WASTE = 0.08
_TWO_OPERANDS = 2.0  # loads of an FMA that uses nothing again
_BUSY = 8  # sums in flight that keep two pipes of latency four busy


@dataclass(frozen=True, slots=True)
class Advice:
    """``saves``: the share of the prior's time that is gone at most if all is well with the term; 0 where
    nothing can be done about it."""

    stage: str
    term: str
    saves: float
    text: str


def advise(
    stages: Sequence[StageTime], registers: int, whole_s: float, held: Collection[str] = ()
) -> tuple[Advice, ...]:
    """On what binds the longest stages, the longest first, and on whatever else much could be saved of.
    ``held``: levels (``l1 l2 l3``) that all tensors fit in and are in before the call."""
    longest = sorted(stages, key=lambda s: -s.time_s)
    bound = [(s, s.binding) for n, s in enumerate(longest) if not n or s.share >= _LONG]
    # Where what binds is not there in fact, the next one does.
    bound += [(s, s.runner_up) for s, t in bound if t in held and s.runner_up is not None]
    other = [(s, t) for s in longest for t in TERMS if (s, t) not in bound]
    first = [_advice(s, t, registers, whole_s, held) for s, t in bound]
    second = [a for s, t in other if (a := _advice(s, t, registers, whole_s, held)).saves >= _LEAST]
    return (*first[:_MOST], *sorted(second, key=lambda a: -a.saves)[:_MOST])


def _advice(stage: StageTime, term: str, registers: int, whole_s: float, held: Collection[str]) -> Advice:
    share, how = stage.terms[term].saves_s / whole_s, _HOW[term](stage, registers)
    if term == "arithmetic":
        share *= max(stage.wasted, 1.0 - stage.lanes_used)
    if term in held:
        name = term.upper()
        share, how = 0.0, f"less than this, since all tensors fit {name} and are in it before the call"
    return Advice(stage.name, term, share, f"{_what(stage, term)}: {how}")


def _what(stage: StageTime, term: str) -> str:
    if term == stage.binding:
        return f"{TERMS[term]} {'bind' if term in _PLURAL else 'binds'}"
    return f"{TERMS[term]} {'come' if term in _PLURAL else 'comes'} on top"


_PLURAL = ("loads", "stores", "spills", "overhead")


def _arithmetic(s: StageTime, registers: int) -> str:
    if s.lanes_used <= 0.5:
        return f"{s.lanes_used:.0%} of a vector's lanes work; lanes along a longer axis would use them all"
    if s.wasted >= _WASTE:
        return (
            f"{s.wasted:.0%} of it is not needed; tiles that divide the extents, peeled tails, or computing "
            "nothing twice would leave that out"
        )
    if s.reduces and s.loads_per_fma:
        return "the FMA units are busy with what is needed; only less work would be faster"
    return "its functions and operations take the ports; computing them once per value is all there is to do"


def _loads(s: StageTime, registers: int) -> str:
    if s.is_copy:
        return "values are gathered one by one; a copy in squares, or none, would need fewer loads"
    if not s.reuses:
        return "values are loaded for little work; computing this stage inside its producer or reader helps"
    each = f"{s.loads_per_fma:.2f} loads for each FMA"
    if s.loads_per_fma > _TWO_OPERANDS:
        return f"{each}, lane by lane; of a packed operand a vector is one load"
    if s.accumulators < registers / 2:
        return (
            f"{each}; a larger register tile ({s.accumulators:.0f} of {registers} registers hold sums) would "
            "use each value more often"
        )
    return f"{each}; a register tile closer to a square has fewer at the same size"


def _stores(s: StageTime, registers: int) -> str:
    if s.reduces:
        return "sums go through memory; a register tile around the whole reduction would keep them"
    return "whole vectors along the last axis, or computing this stage inside its reader, need fewer"


def _latency(s: StageTime, registers: int) -> str:
    more = f"{_BUSY} or more" if s.accumulators < _BUSY else "more"
    return (
        f"each addition waits for the last one to its sum; {more} independent sums "
        f"({s.accumulators:.0f} here) keep the FMA units busy"
    )


def _spills(s: StageTime, registers: int) -> str:
    return (
        f"{s.accumulators:.0f} vectors of sums and their operands crowd {registers} registers; a smaller "
        "register tile, or a reduction that is unrolled less, would keep them all"
    )


def _overhead(s: StageTime, registers: int) -> str:
    return f"{s.unrolled:.0f} vectors of work a pass; a larger unrolled tile has fewer passes"


def _l1(s: StageTime, registers: int) -> str:
    if not s.reuses:
        return "this stage streams its operands; computing it inside its producer or reader reuses them in L1"
    return "a larger register tile, or blocks of the reduction whose operands stay in L1, would reuse more"


def _l2(s: StageTime, registers: int) -> str:
    if not s.reuses:
        return "operands outgrow L2; computing this stage slice by slice with its producer or reader helps"
    return "middle tiles whose operands stay in L2, or packed operands, would reuse more"


def _l3(s: StageTime, registers: int) -> str:
    if not s.reuses:
        return "this streams from memory; only fusing it with its producer or reader moves fewer bytes"
    return "outer tiles whose operands stay in L3, or fusing stages around this one, would move fewer bytes"


_HOW: Mapping[str, Callable[[StageTime, int], str]] = {
    "arithmetic": _arithmetic, "loads": _loads, "stores": _stores, "latency": _latency,
    "spills": _spills, "overhead": _overhead, "l1": _l1, "l2": _l2, "l3": _l3,
}  # fmt: skip
