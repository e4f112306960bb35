"""Time estimates from the structure alone, for whole populations.

For every stage, the larger of what the ports take (arithmetic, loads, stores, the latency of accumulation,
spilled registers) and what each cache level takes to deliver its misses; stages add up. Formulas follow the
roofline and execution-cache-memory models: S. Williams et al., CACM 52(4), 2009; J. Treibig and G. Hager,
PPAM 2009. Counts come from ``costmodel.work``, ``body`` and ``memory``; everything here is a model.
"""

from dataclasses import dataclass
from functools import cached_property

from tunesmith.costmodel.body import Body
from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.memory import Memory
from tunesmith.costmodel.operations import instructions
from tunesmith.costmodel.structure import StageShape
from tunesmith.costmodel.values import Value, ceil, floor, largest, least, most, product, total, where
from tunesmith.costmodel.work import Work
from tunesmith.ir.loopnest import LoopKind

__all__ = ["StageCost", "outer_trips", "stage_cost"]

_FMA_LATENCY = 4
_IN_FLIGHT = 8.0  # accumulations that keep two pipes of that latency busy
# Fitted on 640 random candidates of twelve operators, Zen 3: how much of each time is not hidden by
# prefetching and reordering, and what spilled accumulators add to the arithmetic.
_LEVELS_SEEN = (0.3, 0.4, 0.65)
_OVERHEAD_SEEN = 0.15
_NOT_HIDDEN = 0.5
_TIGHT, _SPILLED, _SPILLED_UNROLLED, _SPILLED_WINDOW, _LONE_VECTOR = 0.15, 1.6, 0.6, 0.6, 0.3
_THREADS_MEET_S = 1e-6  # while OpenMP's threads still wait awake for their next work
_CYCLES_PER_TRIP = 3.0  # of a loop around the innermost one


@dataclass(frozen=True)
class StageCost:
    """Seconds of one stage by what could bind it, over the whole call of one thread; ``parallel``: how many
    times faster all threads are, ``entry``: seconds until they all work and have met again."""

    arithmetic: Value
    loads: Value
    stores: Value
    latency: Value
    spills: Value
    overhead: Value
    levels: tuple[Value, ...]
    parallel: Value
    entry: Value

    @cached_property
    def time(self) -> Value:
        """The binding term, and a part of the next: overlap is never perfect."""
        ports = largest((self.arithmetic, self.loads, self.stores, self.latency))
        ports = ports + self.spills + _OVERHEAD_SEEN * self.overhead
        memory = largest(seen * x for seen, x in zip(_LEVELS_SEEN, self.levels, strict=True))
        return (most(ports, memory) + _NOT_HIDDEN * least(ports, memory)) / self.parallel + self.entry


def stage_cost(
    shape: StageShape, body: Body, memory: Memory, machine: Machine, work: Work | None = None
) -> StageCost:
    """The cost of a stage for every candidate; ``work`` is what is left of its whole tiles, None: all."""
    passes = whole = product(x.extent for x in shape.serial)
    vectors = body.vectors * whole
    share: Value = 1.0
    if work is not None:
        busy = _busy(body, work)
        passes, share, vectors = work.passes, busy / vectors, busy
    arithmetic = vectors * (instructions(shape.stage) / machine.fma_rate)
    loads, stores = whole * share * body.load_instructions, whole * share * body.store_instructions
    latency: Value = 0.0
    spills: Value = 0.0
    if shape.reduces:
        stores = vectors * (1 - body.resident)
        loads = loads + stores
        latency = body.resident * passes * body.chain * (_FMA_LATENCY / machine.clock)
        spills = body.resident * _crowding(body, machine) * arithmetic
    return StageCost(
        arithmetic=arithmetic,
        loads=loads * (1 / machine.load_rate),
        stores=stores * (2 / machine.load_rate),
        latency=latency,
        spills=spills,
        overhead=(passes + _CYCLES_PER_TRIP * outer_trips(shape)) * (1 / machine.clock),
        levels=tuple(x.seconds * share for x in memory.levels),
        parallel=_speedup(shape, machine),
        entry=_entry(shape, machine),
    )


def _busy(body: Body, work: Work) -> Value:
    """Native vectors, and idle places for others: a remainder takes as long as the latency of a few."""
    whole = work.whole * body.vectors
    fewest = least(body.vectors, _IN_FLIGHT * body.chain)
    return whole + most(work.vectors - whole, (work.passes - work.whole) * fewest)


def _crowding(body: Body, machine: Machine) -> Value:
    """How many times the arithmetic is what registers that do not suffice add to it."""
    excess = body.accumulators + body.held - machine.registers
    chained = body.chain > 1
    spilled = where(chained, _SPILLED_UNROLLED, _SPILLED)
    window = where(excess + body.windows > 0, _SPILLED_WINDOW, where(excess == 0, _TIGHT, 0.0))
    lone = where(chained & (body.held == 2), _LONE_VECTOR, 0.0)
    return where(excess > 0, spilled, window) + lone


def outer_trips(shape: StageShape) -> Value:
    """Trips of all loops but the innermost one around unrolled code; loops of one trip are none."""
    trips: Value = 1.0
    counts = []
    for x in shape.serial:
        trips = trips * x.extent
        counts.append(where(x.extent > 1, trips, 0.0))
    return total(counts) - where(trips > 1, trips, 0.0)


def _speedup(shape: StageShape, machine: Machine) -> Value:
    """Work of all threads over that of the busiest one, which has its chunks of the fused loops in a row.

    Trips of a loop that are not whole tiles come once for every trip of the loops around it.
    """
    parallel = [x for x in shape.loops if x.kind is LoopKind.PARALLEL]
    if not parallel or machine.threads == 1:
        return 1.0
    outer: Value = 1.0
    inner: Value = 1.0
    share: Value = 1.0
    for x in parallel:
        cut = share < 1
        outer, inner = where(cut, outer, outer * inner), where(cut, inner * x.extent, x.extent)
        share = share * where(x.extent > 1, x.share, 1.0)
    mine = ceil(outer * inner / machine.threads)
    rounds = floor(mine / inner)
    busiest = rounds * inner * share + least(mine - rounds * inner, inner * share)
    return outer * inner * share / busiest


def _entry(shape: StageShape, machine: Machine) -> Value:
    trips = product(x.extent for x in shape.loops if x.kind is LoopKind.PARALLEL and x.own)
    return 0.0 if machine.threads == 1 else where(trips > 1, _THREADS_MEET_S, 0.0)
