"""How large a program may be. Everything that a stranger can post is held against these numbers."""

from dataclasses import dataclass

__all__ = ["DEFAULT_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds, each inclusive; passing one raises ``LimitError``.

    ``name`` is the length of a name, which must be ASCII: it ends up in C headers.
    ``nodes`` and ``nesting`` hold for the expression of one stage, ``nesting`` also for the source text.
    ``total_nodes`` is for all stages together, ``conditions`` counts the index conditions around one node,
    ``axes`` counts spatial and reduce axes of a stage, ``reductions`` reduce axes written in one statement,
    and ``domain`` the points of its iteration space.
    """

    text_bytes: int = 1 << 16
    name: int = 128
    nesting: int = 100
    nodes: int = 4096
    total_nodes: int = 1 << 16
    conditions: int = 32
    inputs: int = 256
    stages: int = 1024
    rank: int = 8
    axes: int = 16
    reductions: int = 64
    extent: int = 1 << 40
    elements: int = 1 << 40
    domain: int = 1 << 60


DEFAULT_LIMITS = Limits()
