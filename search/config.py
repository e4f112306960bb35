"""How search spends its candidates."""

from dataclasses import dataclass

__all__ = ["SearchConfig"]


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """``first``: random candidates ranked before the first proposal, over all sketches; ``fresh`` more in
    each of ``watched`` sketches a round. The ``bred`` most promising sketches have ``children`` of
    ``parents`` in each of ``generations`` (``early`` in the first round); ``kept`` live on in a sketch.

    ``explore``: share of a batch that is best by draws of what the model is unsure of; ``explore_early``
    until ``descend_after`` candidates are measured. From then on ``descend_share`` of each batch comes from
    the neighbourhood of the best ``descend_from`` (coordinate descent, as in Droplet: M. Canesche et al.,
    arXiv 2406.20037).

    ``seeded``: share of a batch, until ``descend_after`` candidates are measured, that is given to seeds:
    neighbours may mislead.
    """

    first: int = 4096
    fresh: int = 96
    watched: int = 4
    bred: int = 4
    parents: int = 48
    children: int = 256
    generations: int = 1
    early: int = 4
    kept: int = 256
    explore: float = 0.25
    explore_early: float = 0.5
    descend_after: int = 16
    descend_share: float = 0.5
    descend_from: int = 3
    seeded: float = 0.5
