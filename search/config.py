"""How search spends its candidates."""

from dataclasses import dataclass

__all__ = ["SearchConfig"]


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """``population``: fresh candidates ranked a round, over the ``watched`` most promising sketches (all of
    them in the first round); ``parents`` a sketch live on, and the ``bred`` most promising sketches evolve.

    ``explore``: share of a batch drawn at random with odds (best / predicted seconds) ** ``greed``; more
    until ``descend_after`` candidates are measured. From then on ``descend_share`` of each batch comes from
    the neighbourhood of the best ``descend_from`` (coordinate descent, as in Droplet: M. Canesche et al.,
    arXiv 2406.20037).
    """

    population: int = 2048
    generations: int = 3
    parents: int = 48
    bred: int = 8
    watched: int = 16
    explore: float = 0.25
    explore_early: float = 0.5
    greed: float = 6.0
    descend_after: int = 16
    descend_share: float = 0.5
    descend_from: int = 3
