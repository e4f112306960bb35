"""How search spends its candidates."""

from dataclasses import dataclass

__all__ = ["SearchConfig"]


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """``population``: candidates ranked a round, over all sketches. ``explore``: share of a batch chosen for
    variety rather than by rank. ``descend_after``: measured candidates before part of each batch comes from
    the neighbourhood of the best (coordinate descent, as in Droplet: M. Canesche et al., arXiv 2406.20037).
    """

    population: int = 4096
    generations: int = 3
    parents: int = 256
    explore: float = 0.15
    descend_after: int = 12
    descend_share: float = 0.5
    descend_from: int = 3
