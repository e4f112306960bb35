"""Closed forms against counts taken from lowered loop nests, candidate by candidate: equal, not similar."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from nest_counts import KINDS, StageCount, count_nest

from tunesmith.costmodel.columns import NAMES
from tunesmith.costmodel.features import features_of
from tunesmith.costmodel.machine import Machine
from tunesmith.costmodel.operations import operations
from tunesmith.costmodel.structure import Shaper, knob_values, structure
from tunesmith.costmodel.values import Value
from tunesmith.costmodel.view import Part, View, view
from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical
from tunesmith.ir.expr import Within, walk
from tunesmith.ir.loopnest import LoopKind
from tunesmith.ir.program import Stage
from tunesmith.records import Peaks, Target
from tunesmith.schedule import IllegalStep, Sketch, lower
from tunesmith.search import derive
from tunesmith.search.population import sample

LANES = 8
SKETCHES, CANDIDATES = 6, 2
PEAKS = Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0)

PROGRAMS = (
    "matmul(13,29,11)",  # primes: every tile has a tail
    "matmul(1,29,11)",
    "matmul(16,32,8)",  # most tiles divide
    "matmul(5,9,200)",  # the reduction in blocks
    "matmul(7,1,301)",  # dot products
    "matmul(4,3,50)",
    "dense(m=5,n=19,k=23,act='gelu')",
    "batch_matmul(3,7,5,6)",
    "conv2d(n=1,h=5,w=7,ci=3,co=20,k=3,pad=1)",  # absent terms, sliced padding, packed weights
    "conv2d(n=1,h=9,w=7,ci=3,co=17,k=3,stride=2,pad=1)",
    "group_conv2d(n=1,h=3,w=4,ci=16,co=16,k=3,pad=1,groups=4)",
    "depthwise_conv2d(h=6,w=5,c=13,k=3,pad=1)",
    "conv2d_transpose(h=3,w=3,ci=5,co=9)",
    "softmax(7,45)",
    "layer_norm(3,37)",
    "norm(1,13,13)",
    "attention(h=2,m=5,d=9)",  # slices of a batch
    "transpose(19,21)",
)


@dataclass(frozen=True, repr=False)
class Case:
    """One candidate of a population: what the closed forms say about it, and what its nest does."""

    sketch: Sketch
    row: int
    view: View
    counts: dict[str, StageCount]
    columns: dict[str, float]

    def of(self, value: Value) -> float:
        return float(value[self.row] if isinstance(value, np.ndarray) else value)

    def stages(self) -> Iterator[tuple[Part, StageCount]]:
        return ((p, self.counts[p.shape.name]) for p in self.view.parts if p.work is not None)

    def divides(self, part: Part) -> bool:
        """Whether all tiles and vectors of a stage are whole, and nothing in it depends on conditions."""
        work, stage = part.work, part.shape.stage
        assert work is not None and stage is not None
        guarded = any(isinstance(e, Within) for e in walk(stage.body))
        full = self.of(work.points) == self.of(work.statements) * self.of(part.body.width)
        return full and self.of(work.whole) == self.of(work.passes) and not guarded

    @property
    def has_tails(self) -> bool:
        """Whether some stage has a tile that is not whole, or computes something twice."""
        stages = [p for p, _ in self.stages()]
        return any(not self.divides(p) or self.of(p.work.points) != p.work.needed for p in stages if p.work)


def target(threads: int) -> Target:
    return Target(
        "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, threads,
        1 << 15, 1 << 19, 1 << 25, 64, 4 * LANES, 16, PEAKS,
    )  # fmt: skip


@cache
def cases(text: str, threads: int = 1) -> tuple[Case, ...]:
    """Random candidates of some sketches of a program, the first and the last among them."""
    p, machine = canonical(operator(text)), target(threads)
    sketches = derive(p, machine).sketches
    some = sorted({round(n) for n in np.linspace(0, len(sketches) - 1, SKETCHES)})
    return tuple(c for n in some for c in _cases(p, sketches[n], machine))


def _cases(p: Program, sketch: Sketch, machine: Target) -> Iterator[Case]:
    rows = sample(sketch, CANDIDATES, np.random.default_rng(11))
    state = structure(p, sketch)
    seen = view(Shaper(state, knob_values(sketch, rows)), Machine.of(machine, p.stages[-1].dtype))
    matrix = features_of(state, sketch, rows, machine).matrix
    for n, row in enumerate(rows):
        counts = _counted(p, sketch, row)
        if counts is not None:
            yield Case(sketch, n, seen, counts, dict(zip(NAMES, map(float, matrix[n]), strict=True)))


def _counted(p: Program, sketch: Sketch, row: np.ndarray) -> dict[str, StageCount] | None:
    try:
        return count_nest(lower(p, sketch.decode(row)), LANES)
    except IllegalStep:
        return None


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("text", PROGRAMS)
def test_work_is_that_of_the_nest(text: str, threads: int) -> None:
    """Points, statements and vectors issued in a whole call, tails and absent terms and all."""
    for case in cases(text, threads):
        for part, count in case.stages():
            assert part.work is not None
            found = [case.of(x) for x in (part.work.points, part.work.statements, part.work.vectors)]
            real = [count.points, count.statements, count.vectors]
            assert found == pytest.approx(real, rel=1e-9), (case.sketch.name, part.shape.name)


@pytest.mark.parametrize("text", PROGRAMS)
def test_passes_are_those_of_the_nest_where_tiles_divide(text: str) -> None:
    for case in cases(text):
        for part, count in case.stages():
            if case.divides(part):
                assert case.of(part.work.passes) == count.passes, (case.sketch.name, part.shape.name)


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_whole_pass_is_the_fullest_of_the_nest(text: str) -> None:
    """Statements, loads by kind, accumulators of the unrolled code."""
    for case in cases(text):
        for part, count in case.stages():
            if not case.divides(part):
                continue
            body, full = part.body, count.fullest
            assert case.of(body.statements) == full.statements, (case.sketch.name, part.shape.name)
            assert case.of(body.vectors) == full.vectors
            assert case.of(body.accumulators) == len(full.stores) * case.of(body.native)
            loads = [case.of(getattr(body.loads, kind)) for kind in KINDS]
            assert loads == [len(full.loads[kind]) for kind in KINDS], (case.sketch.name, part.shape.name)


@pytest.mark.parametrize("text", PROGRAMS)
def test_loops_reach_what_they_reach_in_the_nest(text: str) -> None:
    """The box of every buffer inside every loop, and so all footprints, strides and distances of reuse."""
    for case in (c for c in cases(text) if not c.has_tails):
        for part, count in case.stages():
            for access, reaches in zip(part.memory.accesses, part.memory.reaches, strict=True):
                if [a.tensor for a in part.memory.accesses].count(access.tensor) > 1:
                    continue  # their boxes are one in the nest
                for d, loop in enumerate(part.shape.serial):
                    real = count.boxes.get(loop.name, {}).get(access.tensor)
                    found = [case.of(n) for n in reaches[d].places]
                    assert real in (None, found), (case.sketch.name, part.shape.name, access.tensor)


def test_what_loops_reach_was_compared_at_all() -> None:
    """Tiles that divide are found by drawing candidates; some programs have none."""
    assert sum(not c.has_tails for c in cases("matmul(16,32,8)")) > 5


@pytest.mark.parametrize("text", ("matmul(13,29,11)", "matmul(5,9,200)", "attention(h=2,m=5,d=9)"))
def test_copies_move_what_the_nest_copies(text: str) -> None:
    checked = 0
    for case in cases(text):
        copies = [p.shape.name for p in case.view.parts if p.work is None]
        moved = sum(case.counts[name].points for name in copies) * 4
        assert case.of(case.view.copied(inside=False)) + case.of(case.view.copied(inside=True)) == moved
        checked += bool(copies)
    assert checked


@pytest.mark.parametrize("text", PROGRAMS)
def test_columns_say_what_was_counted(text: str) -> None:
    """From counts to columns: operations, use of lanes, chunks."""
    for case in cases(text, threads=2):
        main, columns = case.view.main, case.columns
        work = case.view.work
        vectors = case.counts[main.shape.name].vectors
        assert columns["lanes.use"] == pytest.approx(work.needed / (vectors * LANES), rel=1e-6)
        assert columns["lanes.vectors"] == pytest.approx(np.log1p(vectors), rel=1e-6)
        fma = sum(operations(s).fma * case.counts[s.name].points for s in _stages(case))
        assert columns["ops.fma"] == pytest.approx(np.log1p(fma), rel=1e-6)
        chunks = [x.extent for x in main.shape.loops if x.kind is LoopKind.PARALLEL]
        assert columns["parallel.chunks"] == pytest.approx(np.log1p(np.prod([case.of(x) for x in chunks])))


def _stages(case: Case) -> list[Stage]:
    return [p.shape.stage for p in case.view.parts if p.shape.stage is not None]
