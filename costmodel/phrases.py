"""Columns of the feature matrix and terms of the prior in words."""

__all__ = ["LEVELS", "TERMS", "phrase"]

LEVELS = ("l1", "l2", "l3")
TERMS = {
    "arithmetic": "arithmetic",
    "loads": "loads",
    "stores": "stores",
    "latency": "waiting for sums",
    "spills": "spilled registers",
    "overhead": "loops themselves",
    "l1": "traffic from L2 to L1",
    "l2": "traffic from L3 to L2",
    "l3": "traffic from memory",
}
"""What a stage's time can be bound by, and how it is called."""

_PHRASES = {
    "prior": "the size of the whole",
    **{f"sum.{term}": f"{words}, all stages" for term, words in TERMS.items()},
    **{f"main.{term}": f"{words}, main stage" for term, words in TERMS.items()},
    "main.loads_per_fma": "loads per FMA",
    "main.accumulators": "vectors of running results",
    "main.unrolled": "vectors in the unrolled tile",
    "main.iterations": "passes of the unrolled tile",
    "main.parallel": "threads kept busy",
    "main.share": "share of the main stage",
    "register_fill": "share of registers for running results",
    "stages": "number of stages and copies",
}


def phrase(column: str) -> str:
    """What a column holds; its name where nothing is said of it."""
    return _PHRASES.get(column, column)
