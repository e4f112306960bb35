"""Time estimates from the structure alone, for whole populations.

For every stage, the larger of what the ports take (arithmetic, loads, stores, the latency of accumulation,
spilled registers) and what each cache level takes to deliver its misses; stages add up. Formulas follow the
roofline and execution-cache-memory models: S. Williams et al., CACM 52(4), 2009; J. Treibig and G. Hager,
PPAM 2009.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.structure import Access, Array, LoopShape, StageShape
from tunesmith.ir.expr import Binary, BinaryOp, Const, Expr, Select, Unary, UnaryOp, children
from tunesmith.ir.loopnest import LoopKind

__all__ = ["StageCost", "stage_cost"]

# Instructions on the arithmetic ports, a vector each.
_UNARY = {
    UnaryOp.NEG: 1, UnaryOp.ABS: 1, UnaryOp.SQRT: 10, UnaryOp.RSQRT: 20, UnaryOp.EXP: 18, UnaryOp.EXP2: 16,
    UnaryOp.LOG: 34, UnaryOp.LOG2: 36, UnaryOp.LOG10: 38, UnaryOp.SIN: 30, UnaryOp.COS: 30,
    UnaryOp.TANH: 34, UnaryOp.SIGMOID: 40, UnaryOp.ERF: 30,
}  # fmt: skip
_FMA_LATENCY = 4
_STATIC = (LoopKind.UNROLL, LoopKind.VECTOR)
_LINE = 64
_REGISTER_ELEMENTS = 512
# Fitted on 640 random candidates of twelve operators, Zen 3: how much of each time is not hidden by
# prefetching and reordering, and what spilled accumulators add to the arithmetic.
_LEVELS_SEEN = (0.3, 0.4, 0.65)
_OVERHEAD_SEEN = 0.15
_NOT_HIDDEN = 0.5
_TIGHT, _SPILLED, _SPILLED_UNROLLED, _SPILLED_WINDOW, _LONE_VECTOR = 0.15, 1.6, 0.6, 0.6, 0.3
_THREADS_MEET_S = 1e-6  # while OpenMP's threads still wait awake for their next work
_CACHE_USE = 0.8  # of a cache's capacity, before conflicts and other data spoil it


@dataclass(frozen=True)
class StageCost:
    """Seconds of one stage by what could bind it, over the whole call; and figures for the ranker."""

    arithmetic: Array
    loads: Array
    stores: Array
    latency: Array
    spills: Array
    overhead: Array
    levels: tuple[Array, ...]
    loads_per_fma: Array
    accumulators: Array
    unrolled: Array
    iterations: Array
    parallel: Array
    entry: Array

    @property
    def ports(self) -> Array:
        terms = [self.arithmetic, self.loads, self.stores, self.latency]
        worst: Array = np.maximum.reduce(terms)
        return worst + self.spills + _OVERHEAD_SEEN * self.overhead

    @property
    def memory(self) -> Array:
        worst: Array = np.maximum.reduce([s * x for s, x in zip(_LEVELS_SEEN, self.levels, strict=True)])
        return worst

    @property
    def time(self) -> Array:
        """The binding term, and a part of the next: overlap is never perfect."""
        ports, memory = self.ports, self.memory
        both: Array = np.maximum(ports, memory) + _NOT_HIDDEN * np.minimum(ports, memory)
        return both / self.parallel + self.entry


def _operations(e: Expr) -> float:
    own = 0.0
    match e:
        case Unary(op, _):
            own = _UNARY[op]
        case Binary(BinaryOp.DIV, _, _):
            own = 10.0
        case Binary(BinaryOp.POW, _, b):
            own = 2.0 if isinstance(b, Const) else 70.0
        case Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, _, _), _) | Binary(
            BinaryOp.ADD, _, Binary(BinaryOp.MUL, _, _)
        ):
            own = 0.0  # joins the multiplication as an FMA
        case Binary():
            own = 1.0
        case Select():
            own = 2.0
        case _:
            own = 0.0
    return own + sum(_operations(c) for c in children(e))


def stage_cost(shape: StageShape, machine: Machine) -> StageCost:
    """The cost of a stage for every candidate of the population its shape was made for."""
    loops = shape.loops
    ones = np.ones_like(shape.write.size)  # a stage of one value has no loops
    static, serial = _static_suffix(loops)
    width = next((x.extent for x in static if x.kind is LoopKind.VECTOR), ones)
    vectors = np.ceil(width / machine.lanes)  # native vectors in one vector of the code
    unrolled = _product(static, ones) / width * vectors
    iterations = _product(serial, ones) * shape.share
    total = unrolled * iterations
    fma = _is_fma(shape)
    operations = max(_operations(shape.body) + (0 if fma else 1 if shape.reduces else 0), 0.25)
    registers, in_registers = _accumulators(shape, static, ones, vectors, width)
    loaded = sum((_load_count(r, static, width, vectors, ones) for r in shape.reads), 0.0 * ones)
    written = _load_count(shape.write, static, width, vectors, ones)
    kept = in_registers * (1 if shape.reduces else 0)
    touched = iterations * loaded + (0 if not shape.reduces else total * (1 - kept))
    stored = total * (1 - kept) if shape.reduces else iterations * written
    chain = _chain(shape, static, ones)
    latency = kept * iterations * chain * _FMA_LATENCY / machine.clock
    if not shape.reduces:
        latency = 0.0 * ones
    held = _operands(shape, static, ones, vectors, registers)
    excess = registers + held - machine.registers
    spilled = np.where(chain > 1, _SPILLED_UNROLLED, _SPILLED)
    window = excess + _windows(shape, static, ones, vectors, registers) > 0
    crowding = np.select([excess > 0, window, excess == 0], [spilled, _SPILLED_WINDOW, _TIGHT])
    lone = np.where((chain > 1) & (held == 2), _LONE_VECTOR, 0.0)
    spills = kept * ((crowding + lone) * total * operations / machine.fma_rate)
    overhead = iterations * 1.0 / machine.clock + _outer_overhead(serial, ones, machine)
    return StageCost(
        arithmetic=total * operations / machine.fma_rate,
        loads=touched / machine.load_rate,
        stores=stored / (machine.load_rate / 2),
        latency=latency,
        spills=spills,
        overhead=overhead,
        levels=tuple(x * shape.share for x in _memory(shape, machine, ones)),
        loads_per_fma=loaded / np.maximum(unrolled * operations, 1e-9),
        accumulators=registers,
        unrolled=unrolled,
        iterations=iterations,
        parallel=_speedup(loops, machine, ones),
        entry=_entry(loops, machine, ones),
    )


def _static_suffix(loops: tuple[LoopShape, ...]) -> tuple[list[LoopShape], list[LoopShape]]:
    """Innermost loops without control flow, and those around them."""
    n = len(loops)
    while n and loops[n - 1].own and loops[n - 1].kind in _STATIC:
        n -= 1
    return list(loops[n:]), list(loops[:n])


def _product(loops: list[LoopShape], ones: Array) -> Array:
    total = ones
    for x in loops:
        total = total * x.extent
    return total


def _is_fma(shape: StageShape) -> bool:
    return shape.reduces and isinstance(shape.body, Binary) and shape.body.op is BinaryOp.MUL


def _moves(access: Access, loop: LoopShape) -> bool:
    return loop.name in access.strides


def _in_memory(access: Access) -> Array:
    """0 where the buffer is local and small enough to be registers, 1 elsewhere."""
    size: Array = access.size
    return np.where(access.local & (size <= _REGISTER_ELEMENTS), 0.0, 1.0)


def _load_count(access: Access, static: list[LoopShape], width: Array, vectors: Array, ones: Array) -> Array:
    """Load instructions in one pass of the unrolled code: each address once, strided lanes one by one.

    Overlapping windows of single values are loaded again: the registers they would stay in are taken.
    """
    is_vector = any(x.kind is LoopKind.VECTOR and _moves(access, x) for x in static)
    count = _in_memory(access) * ones
    places: list[tuple[Array, Array]] = []  # strides, and how many places there are that far apart
    for loop in static:
        if not _moves(access, loop):
            continue
        stride = access.strides[loop.name]
        if loop.kind is LoopKind.VECTOR:
            count = count * np.where(stride == 1, vectors, 2 * width)
            continue
        for n, (first, number) in enumerate(places):
            apart = stride / np.maximum(np.abs(first), 1.0)
            overlap = (apart >= 1) & (apart == np.floor(apart)) & (apart < number)
            if is_vector and overlap.any():
                both = number + apart * (loop.extent - 1)
                places[n] = (first, np.where(overlap, both, number * loop.extent))
                break
        else:
            places.append((stride, loop.extent))
    for _, number in places:
        count = count * number
    return count


def _accumulators(
    shape: StageShape, static: list[LoopShape], ones: Array, vectors: Array, width: Array
) -> tuple[Array, Array]:
    """Vectors of running results, and 1 if they can stay in registers (0: in memory)."""
    count = ones
    for loop in static:
        if _moves(shape.write, loop):
            count = count * (vectors if loop.kind is LoopKind.VECTOR else loop.extent)
    own_serial = [x for x in shape.loops if x.own and x not in static and _moves(shape.write, x)]
    resident = ones * float(shape.attached)
    for loop in own_serial:
        resident = resident * (loop.extent == 1)
    return count, resident


def _operands(
    shape: StageShape, static: list[LoopShape], ones: Array, vectors: Array, registers: Array
) -> Array:
    """Registers for operands while the tile is updated: all vectors of one, and one for the others.

    A tile that does not leave this many free runs at about half speed: the scheduler moves loads up and
    spills accumulators to make room. What one accumulator alone uses comes from memory when it is needed.
    """
    held = ones
    for access in shape.reads:
        mine = ones
        for loop in static:
            if _moves(access, loop) and _moves(shape.write, loop):
                mine = mine * (vectors if loop.kind is LoopKind.VECTOR else loop.extent)
        is_vector = any(x.kind is LoopKind.VECTOR and _moves(access, x) for x in static)
        held = held + (np.where(mine < registers, mine, 0.0) if is_vector else 0.0)
    return held


def _windows(
    shape: StageShape, static: list[LoopShape], ones: Array, vectors: Array, registers: Array
) -> Array:
    """Registers for operands that other accumulators use again a few steps on, when windows are unrolled."""
    more = 0.0 * ones
    for access in shape.reads:
        tile = [x for x in static if _moves(access, x) and _moves(shape.write, x)]
        mine = ones
        for x in tile:
            mine = mine * (vectors if x.kind is LoopKind.VECTOR else x.extent)
        from_memory = any(x.kind is LoopKind.VECTOR for x in tile) & (mine >= registers)
        more = more + np.where(from_memory, 0.0, _sliding(shape, access, static, ones))
    return more


def _sliding(shape: StageShape, access: Access, static: list[LoopShape], ones: Array) -> Array:
    """Further registers for an operand that is used again, a few steps on, by other accumulators: windows."""
    places = [x for x in static if _moves(access, x) and _moves(shape.write, x)]
    more = 0.0 * ones
    for step in (x for x in static if _moves(access, x) and not _moves(shape.write, x)):
        for place in (x for x in places if x.kind is LoopKind.UNROLL):
            apart = access.strides[step.name] / np.maximum(access.strides[place.name], 1.0)
            again = (step.extent > 1) & (apart == np.floor(apart)) & (apart < place.extent)
            more = np.maximum(more, np.where(again, place.extent - 1, 0.0))
    return more


def _chain(shape: StageShape, static: list[LoopShape], ones: Array) -> Array:
    """Dependent accumulations in one pass of the unrolled code."""
    return _product([x for x in static if not _moves(shape.write, x)], ones)


def _outer_overhead(serial: list[LoopShape], ones: Array, machine: Machine) -> Array:
    total, trips = 0.0 * ones, ones
    for x in serial[:-1]:
        trips = trips * x.extent
        total = total + trips * 3.0 / machine.clock
    return total


def _speedup(loops: tuple[LoopShape, ...], machine: Machine, ones: Array) -> Array:
    """Work of all threads over that of the busiest one, which has its chunks of the fused loops in a row.

    Trips of a loop that are not whole tiles come once for every trip of the loops around it.
    """
    parallel = [x for x in loops if x.kind is LoopKind.PARALLEL]
    if not parallel or machine.threads == 1:
        return ones
    outer, inner, share = ones, ones, ones
    for x in parallel:
        outer = np.where(share < 1, outer, outer * inner)
        inner = np.where(share < 1, inner * x.extent, x.extent)
        share = share * x.share
    mine = np.ceil(outer * inner / machine.threads)
    rounds, rest = np.divmod(mine, inner)
    busiest = rounds * inner * share + np.minimum(rest, inner * share)
    return outer * inner * share / busiest


def _entry(loops: tuple[LoopShape, ...], machine: Machine, ones: Array) -> Array:
    """Seconds until all threads work, and have met again."""
    parallel = [x for x in loops if x.kind is LoopKind.PARALLEL and x.own]
    if machine.threads == 1:
        return 0.0 * ones
    return np.where(_product(parallel, ones) > 1, _THREADS_MEET_S, 0.0)


def _memory(shape: StageShape, machine: Machine, ones: Array) -> tuple[Array, ...]:
    """Seconds that each level's misses take: footprints of inner loops against capacities."""
    accesses = (*shape.reads, shape.write)
    static, serial = _static_suffix(shape.loops)
    lines = [_lines(a, serial, static, ones) for a in accesses]
    out = []
    for level in machine.levels:
        total = sum(
            (_occupied(a, n, level.way_bytes) for a, n in zip(accesses, lines, strict=True)), 0.0 * ones
        )
        fits = _outermost_fit(
            np.broadcast_to(total, (len(serial) + 1, len(ones))), level.size_bytes * _CACHE_USE
        )
        out.append(_traffic(serial, accesses, lines, fits, ones) / (level.beyond_gbs * 1e9))
    return tuple(out)


@dataclass(frozen=True)
class _Lines:
    """Cache lines that loops reach in a buffer, by depth: row d for the loops inside the d outermost.

    ``reach`` has one matrix a dimension: places along it, the last dimension's in lines.
    """

    count: Array
    reach: tuple[Array, ...]


def _lines(access: Access, serial: list[LoopShape], static: list[LoopShape], ones: Array) -> _Lines:
    places = []
    for steps, extent in zip(access.steps, access.extents, strict=True):
        reach = np.empty((len(serial) + 1, len(ones)))
        inner = ones
        for loop in static:
            if loop.name in steps:
                inner = inner + np.abs(steps[loop.name]) * (loop.extent - 1)
        reach[-1] = inner
        for d in range(len(serial) - 1, -1, -1):
            loop = serial[d]
            moved = steps.get(loop.name)
            reach[d] = reach[d + 1] if moved is None else reach[d + 1] + np.abs(moved) * (loop.extent - 1)
        places.append(np.minimum(reach, extent))
    if not places:
        return _Lines(np.ones((len(serial) + 1, len(ones))) * _in_memory(access), ())
    places[-1] = np.maximum(places[-1] * (access.element_bytes / _LINE), 1.0)
    count = _in_memory(access)
    for p in places:
        count = count * p
    return _Lines(count, tuple(places))


def _occupied(access: Access, lines: _Lines, way_bytes: int) -> Array:
    """Bytes of a cache that the lines take up, with sets that no line maps to counted as taken.

    Rows that lie a multiple of a large power of two apart share few sets.
    """
    if len(lines.reach) < 2:
        return lines.count * _LINE
    stride: Array = np.full(lines.count.shape[1], float(access.element_bytes))
    sets = lines.reach[-1]
    for extent, reach in zip(reversed(access.extents[1:]), reversed(lines.reach[:-1]), strict=True):
        stride = stride * extent
        apart = way_bytes / np.gcd(stride.astype(np.int64), way_bytes)
        sets = sets * np.minimum(reach, apart)
    all_sets = way_bytes / _LINE
    crowding = np.minimum(lines.count, all_sets) / np.minimum(sets, all_sets)
    return lines.count * np.maximum(crowding, 1.0) * _LINE


def _outermost_fit(totals: Array, capacity: float) -> NDArray[np.int64]:
    """The least depth whose insides fit; the depth of the body if nothing does."""
    holds = np.logical_and.accumulate(totals[::-1] <= capacity, axis=0)
    depth: NDArray[np.int64] = len(totals) - 1 - np.maximum(holds.sum(axis=0) - 1, 0)
    # Even where nothing fits, the innermost loop uses each line up before it goes on to the next.
    return np.minimum(depth, max(len(totals) - 2, 0))


def _traffic(
    serial: list[LoopShape],
    accesses: tuple[Access, ...],
    lines: list[_Lines],
    fits: NDArray[np.int64],
    ones: Array,
) -> Array:
    """Bytes through one level: what fits inside is fetched once for each trip of the loops outside.

    Loops just outside that do not move in a buffer leave it where it is.
    """
    total = 0.0 * ones
    columns = np.arange(len(ones))
    for access, line in zip(accesses, lines, strict=True):
        factors = np.ones((len(serial) + 1, len(ones)))
        trips = ones
        for d, loop in enumerate(serial, start=1):
            trips = trips * loop.extent
            factors[d] = trips if _moves(access, loop) else factors[d - 1]
        total = total + line.count[fits, columns] * factors[fits, columns] * _LINE
    return total
