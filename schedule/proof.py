"""What is known about index variables at a point of a loop nest, and what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tunesmith.ir.affine import Affine, Range, interval

__all__ = ["Knowledge"]

_DEPTH = 2  # facts combined in one proof: one per axis of a two-term index


@dataclass(frozen=True)
class Knowledge:
    """``ranges``: inclusive bounds of every variable, opened or not; ``facts``: affine forms known >= 0."""

    ranges: Mapping[str, Range] = field(default_factory=dict)
    facts: tuple[Affine, ...] = ()

    def with_range(self, name: str, lo: int, hi: int) -> "Knowledge":
        return replace(self, ranges={**self.ranges, name: (lo, hi)})

    def with_fact(self, fact: Affine) -> "Knowledge":
        return self if not fact.terms else replace(self, facts=(*self.facts, fact))

    def fix(self, name: str, value: Affine) -> "Knowledge":
        """A variable is this value of others, or this number, from here on."""
        ranges = {**self.ranges, name: interval(value, self.ranges)}
        return Knowledge(ranges, tuple(f.substitute({name: value}) for f in self.facts))

    def proves(self, p: Affine, depth: int = _DEPTH) -> bool:
        """Whether ``p >= 0`` follows: by intervals alone, or as a known form plus something >= 0."""
        if interval(p, self.ranges)[0] >= 0:
            return True
        if depth == 0:
            return False
        return any(self.proves(rest, depth - 1) for rest in self._reductions(p))

    def _reductions(self, p: Affine) -> list[Affine]:
        out: list[Affine] = []
        mine = dict(p.terms)
        for fact in self.facts:
            for name, c in fact.terms:
                ratio, left = divmod(mine.get(name, 0), c)
                if ratio > 0 and not left:
                    out.append(p - fact * ratio)
                    break
        return out
