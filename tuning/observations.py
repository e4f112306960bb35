"""What other auto-schedulers measured, as observations: where searches begin, and what models learn from.

Their tiles are placed in a program's own space. A placement is ``exact`` where every tile has its like and
the order of the loops is the same, else ``nearest``: that helps a search, but is nothing to learn times from.
The times are of other code on another machine, and belong to a target of its own: what the log tells of the
machine, and nominal caches and peaks for what it does not.
"""

import datetime as dt
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from tunesmith.frontend import operator
from tunesmith.ir import Program, TunesmithError
from tunesmith.records import Measurement, Peaks, Protocol, Record, Status, Target, Workload
from tunesmith.schedule import IllegalStep, Schedule, Sketch, lower
from tunesmith.search import Space, derive
from tunesmith.search.population import repair
from tunesmith.tuning.workload import workload_of

__all__ = ["IMPORTED", "Machine", "Observation", "Tiles", "Unmapped", "record_of"]

IMPORTED = "imported: "
"""How the model of an imported target begins."""

_GHZ = 3.0
_FMAS = 2  # vector instructions a cycle, of two operations each
_ARM = re.compile(r"aarch64|arm64|cortex|neoverse|apple|a64fx|thunderx|ampere")


class Unmapped(Exception):
    """An observation that says nothing here. The text is a reason that many may share."""


@dataclass(frozen=True, slots=True)
class Machine:
    """As a log has it. ``text`` is the log's own words."""

    text: str
    cpu: str
    cores: int
    vector_bytes: int = 64
    line_bytes: int = 64


@dataclass(frozen=True, slots=True)
class Tiles:
    """Of a product, in the loop order i0 j0 i1 j1 k0 i2 j2 k1 i3 j3; ``vectors``: j3 is vectorized."""

    i: tuple[int, ...]
    j: tuple[int, ...]
    k: tuple[int, ...]
    vectors: bool = True

    def __post_init__(self) -> None:
        if (len(self.i), len(self.j), len(self.k)) != (4, 4, 2) or min(*self.i, *self.j, *self.k) < 1:
            raise Unmapped("tiled in other levels than SSRSRS")


@dataclass(frozen=True, slots=True)
class Observation:
    """``operator`` names the program, ``identity`` is what makes this observation another than all others."""

    source: str
    operator: str
    tiles: Tiles
    machine: Machine
    times_s: tuple[float, ...]
    at: dt.datetime
    identity: str


def record_of(seen: Observation) -> Record:
    """The record of an observation; equal ones have equal ids. Raises ``Unmapped``."""
    target = _target(seen.machine)
    workload, program, space = _space(seen.operator, target)
    schedule, exact = _placed(seen.tiles, program, space)
    if not all(0 < t < 1e6 for t in seen.times_s) or not seen.times_s:
        raise Unmapped("without a time")
    return Record(
        _id(seen), workload, target, schedule.to_json(), schedule.hash,
        Measurement(Status.OK, seen.times_s), Protocol(samples=len(seen.times_s)), 0, 0, seen.at,
        {"imported_from": seen.source, "mapped": "exact" if exact else "nearest"},
    )  # fmt: skip


def _id(seen: Observation) -> str:
    """A UUID of version 7 in form; its random part is a digest of what was observed."""
    stamp = int(seen.at.timestamp() * 1000) & ((1 << 48) - 1)
    digest = hashlib.sha256(f"{seen.source}\n{seen.identity}".encode()).hexdigest()
    text = f"{stamp:012x}7{digest[:3]}{'89ab'[int(digest[3], 16) % 4]}{digest[4:19]}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _target(machine: Machine) -> Target:
    arm = _ARM.search(f"{machine.text} {machine.cpu}")
    f32 = _GHZ * _FMAS * 2 * machine.vector_bytes / 4
    gbs = _GHZ * 2 * machine.vector_bytes
    return Target(
        triple="aarch64-unknown-linux-gnu" if arm else "x86_64-unknown-linux-gnu",
        cpu=machine.cpu,
        features="",
        model=f"{IMPORTED}{machine.text}"[:256],
        cores=machine.cores,
        threads=machine.cores,
        l1d_bytes=32 << 10,
        l2_bytes=1 << 20,
        l3_bytes=32 << 20,
        line_bytes=machine.line_bytes,
        vector_bytes=machine.vector_bytes,
        vector_registers=32 if machine.vector_bytes == 64 or arm else 16,
        peaks=Peaks(f32, f32 / 2, gbs, gbs / 2, gbs / 8, gbs / 16),
    )


@lru_cache(maxsize=32)
def _space(text: str, target: Target) -> tuple[Workload, Program, Space]:
    try:
        workload, program = workload_of(operator(text))
        return workload, program, derive(program, target)
    except TunesmithError as fault:
        raise Unmapped("too large, or no program of this language") from fault


# -- tiles in a space ---------------------------------------------------------------------------------------


def _placed(tiles: Tiles, program: Program, space: Space) -> tuple[Schedule, bool]:
    """The schedule of the space that is most like the tiles, and whether it is just that."""
    stage = program.stages[-1]
    extents = (stage.axes[-2].extent, stage.axes[-1].extent, stage.reduce_axes[0].extent)
    if (prod(tiles.i), prod(tiles.j), prod(tiles.k)) != extents:
        raise Unmapped("tiles that do not make up the shape")
    sketch = next((s for s in space.sketches if s.name.split()[0] == "riri" and "blocks" not in s.name), None)
    if sketch is None:
        raise Unmapped("no sketch with such loops for this shape")
    wanted, exact = _knobs(tiles, sketch, stage.name)
    row = [int(np.argmin(np.abs(np.array(k.values) - wanted.get(k.name, k.values[0])))) for k in sketch.knobs]
    rows = repair(sketch, np.array([row], dtype=np.int64), np.random.default_rng(0))
    if not len(rows):
        raise Unmapped("tiles beyond the registers")
    schedule = sketch.decode([int(v) for v in rows[0]])
    try:
        lower(program, schedule)
    except IllegalStep as fault:
        raise Unmapped("tiles that are not legal here") from fault
    got = {k.name: k.values[int(i)] for k, i in zip(sketch.knobs, rows[0], strict=True)}
    return schedule, exact and all(got[name] == value for name, value in wanted.items())


def _knobs(tiles: Tiles, sketch: Sketch, stage: str) -> tuple[dict[str, int], bool]:
    """Values of knobs, and whether they say all that the tiles say."""
    i, j, (k_outer, k_inner) = tiles.i, tiles.j, tiles.k
    levels = [(i[0], j[0]), (i[1], j[1])]
    rows, columns, exact = i[3], j[3], tiles.vectors
    if k_outer == 1:
        levels.append((i[2], j[2]))
    elif (i[2], j[2]) != (1, 1):  # a tile between two loops over k, one with the innermost if k1 is 1
        rows, columns, exact = i[2] * i[3], j[2] * j[3], exact and k_inner == 1
    outer = [level for level in levels if level != (1, 1)]
    middle = outer[-1] if len(outer) > 1 else (1, 1)
    exact = exact and len(outer) <= 2
    known = {k.name: k.values for k in sketch.knobs}
    lanes = max((v for v in known[f"{stage}.lanes"] if columns % v == 0), default=None)
    exact = exact and lanes is not None
    width = lanes or min(known[f"{stage}.lanes"])
    wanted = {
        f"{stage}.i0.reg": rows,
        f"{stage}.i0.mid": middle[0],
        f"{stage}.lanes": width,
        f"{stage}.vectors": max(1, columns // width),
        f"{stage}.i1.mid": middle[1],
    }
    return wanted, exact
