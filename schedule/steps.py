"""Schedule steps: how a program is computed, as plain data.

    Schedule = Step…
    Step = Inline(stage)                              computed inside its consumers' expressions
         | CacheWrite(stage)                          stage reduces into `stage.acc`, then copies
         | RFactor(stage, axis, factor, part)         reduce axis split; a part becomes an axis of `stage.rf`
         | ComputeAt(stage, consumer, loop)           computed where needed, inside a loop of a consumer
         | Join(stage, leader)                        runs in the outermost loop of a stage beside it
         | Split(stage, loop, factors, tail)          loop -> loop.0 (outermost) … loop.n, inner extents given
         | Fuse(stage, first, second)                 two adjacent loops -> first*second
         | Reorder(stage, loops)                      a new order for these loops, in the places they hold
         | Unroll(stage, loop) | Vectorize(stage, loop) | Parallel(stage, loop)
         | Stream(stage)                              result written past the caches
         | Pack(stage, tensor, loops, at)             operand copied into the order of its reader's loops

A stage's loops start as its axes followed by its reduce axes. Steps that change stages (Inline, CacheWrite,
RFactor) come before loop steps on the same stage. The JSON form is a list a step: [kind, arguments…].
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeAlias

from tunesmith.ir.errors import TunesmithError

__all__ = [
    "PREPARE",
    "ROOT",
    "SCHEMA_VERSION",
    "CacheWrite",
    "ComputeAt",
    "Fuse",
    "IllegalStep",
    "Inline",
    "Join",
    "Pack",
    "Parallel",
    "Part",
    "RFactor",
    "Reorder",
    "Schedule",
    "ScheduleError",
    "Split",
    "Step",
    "Stream",
    "Tail",
    "Unroll",
    "Vectorize",
]

SCHEMA_VERSION = 1
ROOT = "root"
PREPARE = "prepare"

_INT64 = (1 << 63) - 1

Size: TypeAlias = Any
"""An int; in a sketch it may be a Hole, and over a population an array."""


class ScheduleError(TunesmithError):
    """The JSON form is not a schedule."""


class IllegalStep(TunesmithError):
    """A step cannot be applied here: the one exception that search catches."""

    def __init__(self, step: object, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.reason = reason


class Tail(StrEnum):
    """What happens where a tile does not divide: a second version of the code for the remainder, guards
    (masks in vectors), or a last tile moved back over its neighbour, computing some elements twice."""

    PEEL = "peel"
    MASK = "mask"
    OVERLAP = "overlap"


class Part(StrEnum):
    """Which part of a factored reduce axis becomes an axis of the new stage: its last one, or for ``SLICES``
    (the outer part too) its first one, for large pieces of work such as those of threads."""

    INNER = "inner"
    OUTER = "outer"
    SLICES = "slices"


@dataclass(frozen=True, slots=True)
class Inline:
    stage: str


@dataclass(frozen=True, slots=True)
class CacheWrite:
    stage: str


@dataclass(frozen=True, slots=True)
class RFactor:
    stage: str
    axis: str
    factor: int
    part: Part = Part.INNER


@dataclass(frozen=True, slots=True)
class ComputeAt:
    stage: str
    consumer: str
    loop: str


@dataclass(frozen=True, slots=True)
class Join:
    """The outermost loops of two stages at one place become one: each iteration computes the leader's part,
    then the stage's. Where the stage reads the leader, it reads what is written by then.

    Both loops stay serial and have the same iterations.
    """

    stage: str
    leader: str


@dataclass(frozen=True, slots=True)
class Split:
    stage: str
    loop: str
    factors: tuple[Size, ...]
    tail: Tail | Size = Tail.PEEL


@dataclass(frozen=True, slots=True)
class Fuse:
    stage: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Reorder:
    stage: str
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unroll:
    stage: str
    loop: str


@dataclass(frozen=True, slots=True)
class Vectorize:
    stage: str
    loop: str


@dataclass(frozen=True, slots=True)
class Parallel:
    stage: str
    loop: str


@dataclass(frozen=True, slots=True)
class Stream:
    stage: str


@dataclass(frozen=True, slots=True)
class Pack:
    """``loops`` are ``stage.loop`` names of the reader or of stages it is computed at, outermost first.

    ``at`` is ``root`` (before everything), ``prepare`` (once, for constant operands) or such a loop name.
    """

    stage: str
    tensor: str
    loops: tuple[str, ...]
    at: str = ROOT

    @property
    def result(self) -> str:
        return f"{self.stage}.{self.tensor}.pack"


Step: TypeAlias = (
    Inline
    | CacheWrite
    | RFactor
    | ComputeAt
    | Join
    | Split
    | Fuse
    | Reorder
    | Unroll
    | Vectorize
    | Parallel
    | Stream
    | Pack
)

_KINDS: dict[str, type[Any]] = {
    "inline": Inline,
    "cache_write": CacheWrite,
    "rfactor": RFactor,
    "compute_at": ComputeAt,
    "join": Join,
    "split": Split,
    "fuse": Fuse,
    "reorder": Reorder,
    "unroll": Unroll,
    "vectorize": Vectorize,
    "parallel": Parallel,
    "stream": Stream,
    "pack": Pack,
}
_NAMES = {cls: name for name, cls in _KINDS.items()}
_ENUMS = {"tail": Tail, "part": Part}


def _to_list(step: Step) -> list[Any]:
    values = (getattr(step, f.name) for f in fields(step))
    return [
        _NAMES[type(step)],
        *(list(v) if isinstance(v, tuple) else v.value if isinstance(v, StrEnum) else v for v in values),
    ]


def _from_list(data: Any) -> Step:
    if not isinstance(data, list) or not data or not isinstance(data[0], str) or data[0] not in _KINDS:
        raise ScheduleError(f"not a schedule step: {data!r:.100}")
    cls = _KINDS[data[0]]
    names = [f.name for f in fields(cls)]
    if len(data) != len(names) + 1:
        raise ScheduleError(f"{data[0]} takes {len(names)} arguments, got {len(data) - 1}")
    return cls(**{n: _argument(data[0], n, v) for n, v in zip(names, data[1:], strict=True)})  # type: ignore[no-any-return]


def _argument(kind: str, name: str, value: Any) -> Any:
    if name in _ENUMS:
        if value not in list(_ENUMS[name]):
            raise ScheduleError(f"{kind}: {name} must be one of {', '.join(_ENUMS[name])}, got {value!r:.50}")
        return _ENUMS[name](value)
    if name in ("factors", "loops"):
        want: type = int if name == "factors" else str
        if not isinstance(value, list) or not all(type(v) is want for v in value):
            raise ScheduleError(f"{kind}: {name} must be a list of {want.__name__}, got {value!r:.50}")
        if any(isinstance(v, int) and abs(v) > _INT64 for v in value):
            raise ScheduleError(f"{kind}: {name} must fit in 64 bits")
        return tuple(value)
    if type(value) is not (int if name == "factor" else str):
        raise ScheduleError(f"{kind}: bad {name}: {value!r:.50}")
    if isinstance(value, int) and abs(value) > _INT64:
        raise ScheduleError(f"{kind}: {name} must fit in 64 bits")
    return value


@dataclass(frozen=True, slots=True)
class Schedule:
    """A tuple of steps; replaying it on its program is the only way to a loop nest."""

    steps: tuple[Step, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"version": SCHEMA_VERSION, "steps": [_to_list(s) for s in self.steps]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Schedule":
        """Raises ScheduleError on anything that ``to_json`` of this version would not give."""
        if not isinstance(data, Mapping) or data.get("version") != SCHEMA_VERSION:
            raise ScheduleError(f"schedule version {SCHEMA_VERSION} expected, got {data!r:.60}")
        steps = data.get("steps")
        if not isinstance(steps, Sequence) or isinstance(steps, str) or len(steps) > 10_000:
            raise ScheduleError("a schedule holds a list of steps")
        return Schedule(tuple(_from_list(s) for s in steps))

    @property
    def hash(self) -> str:
        text = json.dumps(self.to_json(), separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))
