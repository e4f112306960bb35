"""How many of the candidates that the search proposes can be built, and how long that takes.

    python benchmarks/candidates.py [NAME …] [--count 48] [--seed 0] [--batch 1] [--json FILE]

A name selects workloads that begin with it. Each candidate is lowered, emitted and compiled as a build worker
would; a row a family says which share was valid, and the median and the 99th percentile of the time. Half are
the search's own choice, half drawn evenly from all sketches. The slowest and the refused are named below.
"""

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from workloads import selected

from tunesmith.codegen.builder import ir_text
from tunesmith.codegen.llvm import BuildError, compile_ir
from tunesmith.costmodel import Ranker
from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical
from tunesmith.measure import detect_target
from tunesmith.records import Target
from tunesmith.schedule import IllegalStep, Schedule, lower
from tunesmith.search import Search, derive
from tunesmith.search.population import sample

SHOWN = 8
WANTED_VALID, WANTED_MEDIAN_S, WANTED_TAIL_S = 0.98, 0.040, 0.300


@dataclass(frozen=True)
class Built:
    """One candidate: seconds in Python and in LLVM, and why it was refused, if it was."""

    workload: str
    sketch: str
    python_s: float
    llvm_s: float
    code_bytes: int = 0
    error: str = ""

    @property
    def seconds(self) -> float:
        return self.python_s + self.llvm_s


def build(workload: str, sketch: str, program: Program, schedule: Schedule, target: Target) -> Built:
    began = time.perf_counter()
    try:
        text = ir_text(lower(program, schedule), target)
    except IllegalStep as e:
        return Built(workload, sketch, time.perf_counter() - began, 0.0, error=str(e))
    emitted = time.perf_counter()
    try:
        size = len(compile_ir(text, target.triple, target.cpu, target.features))
    except BuildError as e:
        return Built(workload, sketch, emitted - began, time.perf_counter() - emitted, error=str(e))
    return Built(workload, sketch, emitted - began, time.perf_counter() - emitted, size)


def candidates(program: Program, target: Target, count: int, seed: int) -> Iterator[tuple[str, Schedule]]:
    """Half by the search before it has measured anything, half from every sketch alike."""
    space = derive(program, target)
    ranker = Ranker(program, space.sketches, target, seed)
    search = Search(space, ranker, np.random.default_rng(seed))
    for c in search.propose(count // 2):
        yield space.sketches[c.sketch].name, search.schedule(c)
    rng = np.random.default_rng(seed)
    for i in rng.integers(len(space.sketches), size=count - count // 2):
        sketch = space.sketches[i]
        yield from ((sketch.name, sketch.decode(row)) for row in sample(sketch, 1, rng))


def summary(name: str, built: Sequence[Built]) -> str:
    times = np.array([b.seconds for b in built if not b.error])
    valid = len(times) / len(built)
    if not len(times):
        return f"{name:13} {len(built):6} {valid:8.1%}"
    llvm = sum(b.llvm_s for b in built if not b.error) / times.sum()
    median, tail = np.median(times), np.quantile(times, 0.99)
    good = valid >= WANTED_VALID and median <= WANTED_MEDIAN_S and tail <= WANTED_TAIL_S
    shown = " ".join(f"{t * 1e3:9.1f}" for t in (median, tail, times.max()))
    return f"{name:13} {len(built):6} {valid:8.1%} {shown} {llvm:6.0%}  {'' if good else 'not as wanted'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of workload names; all when left out")
    parser.add_argument("--count", type=int, default=48, help="candidates a workload")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    target = detect_target(options.threads)
    families: defaultdict[str, list[Built]] = defaultdict(list)
    print(f"{'family':13} {'built':>6} {'valid':>8} {'median ms':>9} {'99 % ms':>9} {'max ms':>9}   LLVM")
    for w in selected(options.names, options.batch):
        program = canonical(operator(w.operator))
        for sketch, schedule in candidates(program, target, options.count, options.seed):
            families[w.family].append(build(w.name, sketch, program, schedule, target))
    for family, built in families.items():
        print(summary(family, built))
    everything = [b for built in families.values() for b in built]
    print(summary("all", everything))
    for b in sorted(everything, key=lambda b: -b.seconds)[:SHOWN]:
        print(f"  {b.seconds * 1e3:7.1f} ms, {b.code_bytes} bytes of code: {b.workload}, sketch {b.sketch}")
    for (workload, error), n in Counter((b.workload, b.error) for b in everything if b.error).most_common(
        SHOWN
    ):
        print(f"  {n} refused: {workload}: {error[:150]}")
    if options.json:
        options.json.write_text(json.dumps([asdict(b) for b in everything], indent=1))


if __name__ == "__main__":
    main()
