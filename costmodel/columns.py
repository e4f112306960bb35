"""The columns of the feature matrix, each a closed form over one ``View``.

Counts enter as logarithms of one more than themselves, times as logarithms relative to the prior; ratios,
and what hardware bounds as a share of it, as they are. All but ``sum``, ``ops``, ``pack`` and
``loops.stages`` speak of the main stage, the one with most operations of the program.

Exact, equal to counts of the lowered nest: ``ops``, ``lanes``, ``tail.again``, ``lane``, ``rows`` and
``reduce``, ``parallel.chunks`` and ``chunk_vectors``, ``pack.*_bytes``, ``loops``, ``task``; of a whole
tile ``body`` (but for ``stores_each``, what a compiler keeps in registers) and the extents that ``size``
and ``reuse`` are made of. ``trips.passes`` and ``tail.partial`` are exact where tiles divide: lowering puts
short remainders of two loops into one piece of code. Where lanes run along a window of a padded operand,
``lanes`` and ``tail`` count vectors with no term in any lane as left out. Models: ``sum``, ``main``,
``second``, ``pack.time``, lines and pages in ``size``, ``moved``, ``filled``, ``crowding``, ``registers``,
``code``, and ``trips.inner`` and ``outer``, which are those of whole tiles.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import TypeAlias

from tunesmith.costmodel.operations import KINDS
from tunesmith.costmodel.prior import outer_trips
from tunesmith.costmodel.values import Value, least, total, where
from tunesmith.costmodel.view import Part, View

__all__ = ["COUNTS", "NAMES", "SHARES", "TIMES"]

Column: TypeAlias = Callable[[View], Value]

_TERMS = ("arithmetic", "loads", "stores", "latency", "spills", "overhead")
_LEVELS = ("l1", "l2", "l3")
_CODE_BYTES = 6.0  # of an instruction on vectors
_L1I_BYTES = 32768.0
_MICRO_OPS = 4096.0
_MOST_FILLED = 16.0  # times a cache; more makes no difference


def _term(part: Part, term: str) -> Value:
    found: Value = getattr(part.cost, term) if term in _TERMS else part.cost.levels[_LEVELS.index(term)]
    return found


def _sum(term: str) -> Column:
    return lambda v: total(_term(p, term) for p in v.parts)


def _main(term: str) -> Column:
    return lambda v: _term(v.main, term)


def _executed(kind: str) -> Column:
    return lambda v: v.executed[kind]


def _in_body(kind: str) -> Column:
    return lambda v: getattr(v.mix, kind) * v.main.body.statements


def _moved(level: int) -> Column:
    return lambda v: v.main.memory.levels[level].moved


def _filled(level: int) -> Column:
    return lambda v: least(v.main.memory.levels[level].filled, _MOST_FILLED)


def _crowding(level: int) -> Column:
    return lambda v: least(v.main.memory.levels[level].crowding, _MOST_FILLED)


def _size(level: int) -> Column:
    return lambda v: float(v.machine.levels[level].size_bytes)


def _beyond(level: int) -> Column:
    return lambda v: v.machine.levels[level].beyond_gbs


def _footprint(v: View, out: int) -> Value:
    """Bytes that the innermost loops around unrolled code touch."""
    return v.main.memory.footprints[max(v.main.memory.depth - out, 0)]


def _instructions(v: View) -> Value:
    """Of one pass of the main stage's unrolled code."""
    body = v.main.body
    stores = where(body.resident == 1.0, 0.0, body.store_instructions)
    return body.vectors * float(sum(astuple(v.mix))) + body.load_instructions + stores


def _inner_trips(v: View) -> Value:
    return v.main.shape.serial[-1].extent if v.main.shape.serial else 1.0


def _depth(v: View) -> Value:
    return total(where(x.extent > 1, 1.0, 0.0) for x in v.main.shape.serial)


def _partial(v: View) -> Value:
    """Passes that would compute what is computed, were they all whole."""
    return v.work.passes * v.main.body.statements / v.work.statements


TIMES: Mapping[str, Column] = {
    **{f"sum.{t}": _sum(t) for t in (*_TERMS, *_LEVELS)},
    **{f"main.{t}": _main(t) for t in (*_TERMS, *_LEVELS)},
    "second.time": lambda v: v.second,
    "pack.time": lambda v: v.copying,
}
"""Seconds. Models."""

COUNTS: Mapping[str, Column] = {
    # Exact: operations in a whole call, and in one pass of the main stage's unrolled code.
    **{f"ops.{k}": _executed(k) for k in KINDS},
    **{f"body.{k}": _in_body(k) for k in KINDS},
    "body.statements": lambda v: v.main.body.statements,
    "body.vectors": lambda v: v.main.body.vectors,
    "body.vector_loads": lambda v: v.main.body.loads.vector,
    "body.scalar_loads": lambda v: v.main.body.loads.scalar,
    "body.strided_loads": lambda v: v.main.body.loads.strided,
    "body.accumulators": lambda v: v.main.body.accumulators,
    "body.chain": lambda v: v.main.body.chain,
    "lanes.vectors": lambda v: v.work.vectors,
    "trips.passes": lambda v: v.work.passes,
    "trips.inner": _inner_trips,
    "trips.outer": lambda v: outer_trips(v.main.shape),
    "parallel.chunks": lambda v: v.chunks,
    "parallel.chunk_vectors": lambda v: v.work.vectors / v.chunks,
    "pack.root_bytes": lambda v: v.copied(inside=False),
    "pack.slice_bytes": lambda v: v.copied(inside=True),
    # Models on exact extents: what loops reach, in lines and pages, and what of it comes from where.
    "size.pass": lambda v: _footprint(v, 0),
    "size.inner": lambda v: _footprint(v, 1),
    "size.second": lambda v: _footprint(v, 2),
    "size.third": lambda v: _footprint(v, 3),
    "size.all": lambda v: v.main.memory.footprints[0],
    "size.pages": lambda v: v.main.memory.inner_pages,
    "moved.l1": _moved(0),
    "moved.l2": _moved(1),
    "moved.l3": _moved(2),
    "reuse.first_count": lambda v: v.reuse(0)[0],
    "reuse.first_bytes": lambda v: v.reuse(0)[1],
    "reuse.second_count": lambda v: v.reuse(1)[0],
    "reuse.second_bytes": lambda v: v.reuse(1)[1],
    "reuse.result_count": lambda v: v.main.memory.reuse(v.main.shape.write)[0],
    "reuse.result_bytes": lambda v: v.main.memory.reuse(v.main.shape.write)[1],
    "code.instructions": _instructions,
    # The task and the machine.
    "task.flops": lambda v: v.task.flops,
    "task.intensity": lambda v: v.task.intensity,
    "task.reuse": lambda v: v.task.reuse,
    "task.reduction": lambda v: v.task.reduction,
    "task.window": lambda v: v.task.window,
    "task.last": lambda v: v.task.last,
    "machine.l1_bytes": _size(0),
    "machine.l2_bytes": _size(1),
    "machine.l3_bytes": _size(2),
    "machine.l2_gbs": _beyond(0),
    "machine.l3_gbs": _beyond(1),
    "machine.dram_gbs": _beyond(2),
    "machine.fma_rate": lambda v: v.machine.fma_rate,
    "machine.load_rate": lambda v: v.machine.load_rate,
}

SHARES: Mapping[str, Column] = {
    "main.share": lambda v: v.main.cost.time / v.prior,
    "second.share": lambda v: v.second / v.prior,
    # Exact: lanes that do what is needed, of those issued; what tails and tiles compute, of what is needed.
    "lanes.use": lambda v: v.work.needed / (v.work.vectors * v.machine.lanes),
    "lanes.natives": lambda v: v.main.body.width / v.machine.lanes,
    "tail.again": lambda v: v.work.points / v.work.needed,
    "tail.lane": lambda v: v.waste("lane"),
    "tail.rows": lambda v: v.waste("rows"),
    "tail.reduce": lambda v: v.waste("reduce"),
    "tail.partial": _partial,
    "body.vector_loads_each": lambda v: v.main.body.loads.vector / v.main.body.statements,
    "body.scalar_loads_each": lambda v: v.main.body.loads.scalar / v.main.body.statements,
    "body.strided_loads_each": lambda v: v.main.body.loads.strided / v.main.body.statements,
    "body.stores_each": lambda v: v.main.body.store_instructions / v.main.body.vectors,
    # Models: registers, caches, code.
    "registers.accumulators": lambda v: v.main.body.accumulators / v.machine.registers,
    "registers.held": lambda v: v.main.body.held / v.machine.registers,
    "registers.windows": lambda v: v.main.body.windows / v.machine.registers,
    "registers.all": lambda v: _registers(v) / v.machine.registers,
    "registers.resident": lambda v: v.main.body.resident,
    "filled.l1": _filled(0),
    "filled.l2": _filled(1),
    "filled.l3": _filled(2),
    "crowding.l1": _crowding(0),
    "crowding.l2": _crowding(1),
    "crowding.l3": _crowding(2),
    "code.l1i": lambda v: _instructions(v) * (_CODE_BYTES / _L1I_BYTES),
    "code.micro_ops": lambda v: _instructions(v) / _MICRO_OPS,
    "parallel.balance": lambda v: v.main.cost.parallel / v.machine.threads,
    "loops.depth": _depth,
    "loops.stages": lambda v: float(sum(p.work is not None for p in v.parts)),
    "loops.copies": lambda v: float(sum(p.work is None for p in v.parts)),
    "machine.lanes": lambda v: float(v.machine.lanes),
    "machine.registers": lambda v: float(v.machine.registers),
    "machine.threads": lambda v: float(v.machine.threads),
}


def _registers(v: View) -> Value:
    body = v.main.body
    return body.accumulators + body.held + body.windows


NAMES: tuple[str, ...] = ("prior", *TIMES, *COUNTS, *SHARES)
