"""Records as samples to train on: each workload's space is derived again and its schedules found in it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np

from tunesmith.costmodel import Samples
from tunesmith.costmodel.features import features_of
from tunesmith.costmodel.structure import structure
from tunesmith.db import Page, WorkloadSummary
from tunesmith.ir import canonical, program_from_json
from tunesmith.records import Protocol, Record, Target, Workload
from tunesmith.search import derive
from tunesmith.tuning.recording import comparable, schedule_of

__all__ = ["Dataset", "RecordStore", "load_dataset"]

_LEAST = 4  # measured candidates of a workload: with fewer there is little to rank
_PAGE = 100


class RecordStore(Interface):
    """What training needs of a database."""

    def workloads(self, *, limit: int = ..., cursor: str | None = ...) -> Page[WorkloadSummary]: ...
    def workload(self, workload_hash: str) -> Workload | None: ...
    def targets(self) -> list[Target]: ...
    def history(self, workload_hash: str, fingerprint: str) -> list[Record]: ...


@dataclass(frozen=True)
class Dataset:
    """``unplaced``: working records whose schedule is in no sketch of today's space: the untuned schedule,
    and those of versions with other rules. ``small``: workloads left out, since they have too few."""

    tasks: tuple[Samples, ...]
    unplaced: int
    small: int

    @property
    def records(self) -> int:
        return sum(len(t.seconds) for t in self.tasks)


def load_dataset(
    store: RecordStore, protocol: Protocol | None = None, on_task: Callable[[int], None] = lambda _: None
) -> Dataset:
    """All workloads of a database with enough working records under a protocol's cache mode, in the order of
    their hashes. ``on_task`` is told how many workloads are read."""
    tasks: list[Samples] = []
    unplaced = small = 0
    targets = store.targets()
    for number, summary in enumerate(sorted(_summaries(store), key=lambda s: s.hash), 1):
        workload = store.workload(summary.hash)
        for target in targets:
            records = comparable(store.history(summary.hash, target.fingerprint), protocol or Protocol())
            records = [r for r in records if r.measurement.ok and r.versions.get("mapped") != "nearest"]
            if workload is None or len(records) < _LEAST:
                small += bool(records)
                continue
            samples = _samples(workload, target, records)
            unplaced += len({r.schedule_hash for r in records}) - (
                0 if samples is None else len(samples.seconds)
            )
            if samples is None:
                small += 1
            else:
                tasks.append(samples)
        on_task(number)
    return Dataset(tuple(tasks), unplaced, small)


def _summaries(store: RecordStore) -> Iterator[WorkloadSummary]:
    cursor = None
    while True:
        page = store.workloads(limit=_PAGE, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _samples(workload: Workload, target: Target, records: Sequence[Record]) -> Samples | None:
    """Features and times of all schedules that are found in the space; None if they are too few."""
    program = canonical(program_from_json(workload.program))
    space = derive(program, target)
    times: dict[str, list[float]] = defaultdict(list)
    for record in records:
        times[record.schedule_hash].append(record.time_s)
    rows: dict[int, list[tuple[tuple[int, ...], float]]] = defaultdict(list)
    for record in {r.schedule_hash: r for r in records}.values():
        schedule = schedule_of(record)
        candidate = None if schedule is None else space.locate(schedule)
        if candidate is not None:
            rows[candidate.sketch].append((candidate.row, float(np.median(times[record.schedule_hash]))))
    if sum(map(len, rows.values())) < _LEAST:
        return None
    matrices, priors, seconds = [], [], []
    for index, found in sorted(rows.items()):
        sketch = space.sketches[index]
        population = np.array([row for row, _ in found], dtype=np.int64)
        features = features_of(structure(program, sketch), sketch, population, target)
        matrices.append(features.matrix)
        priors.append(features.prior_s)
        seconds.append(np.array([t for _, t in found]))
    return Samples(
        workload.hash,
        workload.name,
        np.concatenate(matrices),
        np.concatenate(priors),
        np.concatenate(seconds),
    )
