"""Workloads of one structure on other shapes, nearest first: where a search may begin.

The index on structure and size is walked from the wanted size upwards and downwards, a bounded number of rows
each way. Two workloads are at least as far apart as their sizes are, so that what is beyond is mostly far.
"""

from collections.abc import Iterator

from tunesmith.db.codec import RECORD_COLUMNS, document, log_size
from tunesmith.db.lookup import Fetch, Kept, Shared, find_best
from tunesmith.db.values import Best, Match, Neighbour
from tunesmith.records import Target, Workload, log_distance

__all__ = ["find_neighbours"]

_WINDOW = 256  # workloads read each way
_TRIED = 4  # times the limit: the nearest, whose best records are looked up

_COLUMNS = "SELECT id, extents, n_records - n_failed AS working FROM workload WHERE structure = :structure"
_BELOW = f"{_COLUMNS} AND log_size < :size ORDER BY log_size DESC, id DESC LIMIT {_WINDOW}"
_ABOVE = f"{_COLUMNS} AND log_size >= :size ORDER BY log_size, id LIMIT {_WINDOW}"


_OBSERVED = (
    f"SELECT {', '.join('r.' + name for name in RECORD_COLUMNS)} FROM target t JOIN record r"
    " ON r.workload_id = :workload AND r.target_id = t.id AND r.status = 'ok'"
    " WHERE t.arch = :arch AND r.rank_s IS NULL ORDER BY r.time_s, r.id LIMIT 1"
)


def find_neighbours(
    fetch: Fetch,
    workload: Workload,
    target: Target,
    limit: int,
    observed: bool = False,
    kept: Kept | None = None,
) -> list[Neighbour]:
    """Best records of workloads of the same structure, from targets of the same architecture: those of the
    same target first, then by distance. What the target itself knows of the workload is not among them.

    With ``observed``, what other programs timed comes last: a place to begin, whose time says nothing here.
    """
    kept = Kept() if kept is None else kept
    nearest = sorted(_near(fetch, workload))[: _TRIED * limit]
    found: list[Neighbour] = []
    for distance, key in nearest:
        best = find_best(fetch, key, target, kept=kept)
        if best is not None and (key != workload.hash or best.match is not Match.EXACT):
            found.append(Neighbour(best, distance))
    order = list(Match)
    found.sort(key=lambda n: (order.index(n.best.match), n.distance, n.best.record.workload.hash))
    if observed and len(found) < limit:
        found += _observed(fetch, target, nearest, kept)
    return found[:limit]


def _observed(
    fetch: Fetch, target: Target, nearest: list[tuple[float, str]], kept: Kept
) -> Iterator[Neighbour]:
    """The fastest observation of each workload."""
    shared = Shared(fetch, kept)
    for distance, key in nearest:
        for row in fetch(_OBSERVED, {"workload": key, "arch": target.arch}):
            best = Best(shared.record(row), Match.SAME_ARCH, time_s=row["time_s"], raced=False)
            yield Neighbour(best, distance)


def _near(fetch: Fetch, workload: Workload) -> Iterator[tuple[float, str]]:
    """Distance and hash of workloads with working records, of all targets."""
    size = log_size(workload.extents)
    if size is None:
        return
    for query in (_BELOW, _ABOVE):
        for row in fetch(query, {"structure": workload.structure, "size": size}):
            extents = document(row["extents"])
            if row["working"] > 0 and len(extents) == len(workload.extents):
                yield log_distance(extents, workload.extents), row["id"]
