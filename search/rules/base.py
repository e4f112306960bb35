"""What a sketch rule is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tunesmith.ir.dtypes import DType
from tunesmith.records import Target
from tunesmith.search.draft import Draft

__all__ = ["EVENLY", "Hardware", "Rule", "balance", "sizes", "thinned"]

EVENLY = 0.9  # of the threads' time used: work that is shared well enough

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What rules need of a target, for one element type: lanes and number of vector registers, threads."""

    lanes: int
    registers: int
    threads: int
    l1_elements: int
    last_cache_bytes: int

    @staticmethod
    def of(target: Target, dtype: DType) -> "Hardware":
        return Hardware(
            target.lanes(dtype),
            target.vector_registers,
            target.threads,
            target.l1d_bytes // dtype.size_bytes,
            target.l3_bytes or target.l2_bytes,
        )


class Rule(Protocol):
    """One way to decide how a stage is computed.

    ``apply`` gives the drafts that follow from it, all with the stage marked done; no drafts mean that the
    rule does not apply, and at most ``most`` of them, since those of several stages multiply. It may raise
    IllegalStep, which drops the draft.
    """

    @property
    def name(self) -> str: ...

    def apply(self, draft: Draft, stage: str, hardware: Hardware, most: int) -> list[Draft]: ...


_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256, 384, 512)


def sizes(extent: int, most: int) -> tuple[int, ...]:
    """Tile sizes up to ``most`` for an axis, denser where small; the extent itself and its divisors too."""
    top = min(extent, most)
    divisors = {d for d in range(1, min(top, 1024) + 1) if extent % d == 0}
    return tuple(sorted({s for s in _SIZES if s <= top} | divisors | ({extent} if extent <= most else set())))


def thinned(variants: Sequence[T], most: int) -> list[T]:
    """At most so many, evenly spread, so that each kind of variant stays."""
    if len(variants) <= most:
        return list(variants)
    return [variants[i * len(variants) // most] for i in range(most)]


def balance(pieces: int, threads: int) -> float:
    """The part of the threads' time that is used when each takes its share of so many equal pieces."""
    return pieces / (-(-pieces // threads) * threads)
