"""Measure every candidate of a part of a program's space, for simulations.

    python benchmarks/record.py NAME OPERATOR [--candidates 12000] [--sketches 4] [--trials 64] [--seed 0]

The part is chosen around the best kernel of a short tuning run: the sketches that did best, and of every knob
so many values, spread evenly and with the best one among them, that the product stays below the number of
candidates. What is measured is saved now and then; an interrupted recording goes on where it was.
"""

import argparse
import math
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from recording import DATA, Recording

from tunesmith.db import open_store
from tunesmith.frontend import operator
from tunesmith.ir import Program
from tunesmith.measure import BuildPool, Runner, detect_target, reserved_cores
from tunesmith.records import Protocol, Record
from tunesmith.schedule import Knob, Schedule, Sketch
from tunesmith.search import Candidate, Space, derive
from tunesmith.search.population import satisfies
from tunesmith.tuning import TuneOptions, tune
from tunesmith.tuning.pipeline import Pipeline, Trial, run_task
from tunesmith.tuning.workload import workload_of

IN_FLIGHT = 16
SAVE_EVERY_S = 30.0
MOST_ROWS = 1_000_000
FEW, AGREE = 3, 4
PROTOCOL = Protocol(samples=5, sample_s=0.002, warmup_s=0.001)


def tuned(program: Program, space: Space, trials: int, seed: int) -> list[Candidate]:
    """Candidates of a short run, best first."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/t.db") as store:
        result = tune(program, TuneOptions(trials=trials, seed=seed), store)
        records: list[Record] = store.history(result.workload.hash, result.target.fingerprint)
    found = []
    for r in sorted((r for r in records if r.measurement.ok), key=lambda r: r.time_s):
        candidate = space.locate(Schedule.from_json(r.schedule))
        found += [] if candidate is None else [candidate]
    return found


def part(space: Space, best: Sequence[Candidate], sketches: int, most: int) -> tuple[Sketch, ...]:
    """The sketches that did best, their knobs thinned so that there are at most so many candidates.

    A knob of few values on which the best candidates agree keeps that one, so that others can keep more.
    """
    first: dict[int, list[tuple[int, ...]]] = {}
    for c in best:
        if c.sketch in first or len(first) < sketches:
            first.setdefault(c.sketch, []).append(c.row)
    kept = [(space.sketches[i], rows[0]) for i, rows in first.items()]
    counts = {k.name: len(k.values) for s, _ in kept for k in s.knobs}
    for i, rows in first.items():
        for n, knob in enumerate(space.sketches[i].knobs):
            if len(knob.values) <= FEW and len({r[n] for r in rows[:AGREE]}) == 1 < len(rows):
                counts[knob.name] = 1
    while True:
        trimmed = tuple(trim(s, row, counts) for s, row in kept)
        if all(s.size <= MOST_ROWS for s in trimmed) and sum(len(rows_of(s)) for s in trimmed) <= most:
            return trimmed
        counts[max(counts, key=lambda n: counts[n])] -= 1


def trim(sketch: Sketch, row: tuple[int, ...], counts: dict[str, int]) -> Sketch:
    """The sketch with that many values a knob, the chosen one among them."""
    knobs = []
    for knob, chosen in zip(sketch.knobs, row, strict=True):
        n = min(counts[knob.name], len(knob.values))
        spread = {round(i * (len(knob.values) - 1) / max(n - 1, 1)) for i in range(n)}
        if chosen not in spread:
            spread = (spread - {min(spread, key=lambda i: abs(i - chosen))}) | {chosen}
        knobs.append(Knob(knob.name, tuple(knob.values[i] for i in sorted(spread))))
    return replace(sketch, knobs=tuple(knobs))


def rows_of(sketch: Sketch) -> NDArray[np.int64]:
    rows = np.indices([len(k.values) for k in sketch.knobs]).reshape(len(sketch.knobs), -1).T
    kept: NDArray[np.int64] = rows[satisfies(sketch, rows)]
    return kept


def planned(name: str, text: str, options: argparse.Namespace) -> Recording:
    """A recording in which nothing is measured yet."""
    _, program = workload_of(operator(text))
    target = detect_target(1)
    space = derive(program, target)
    best = tuned(program, space, options.trials, options.seed)
    sketches = part(space, best, options.sketches, options.candidates)
    parts = [rows_of(s) for s in sketches]
    count = sum(map(len, parts))
    rows = np.zeros((count, max(r.shape[1] for r in parts)), dtype=np.uint8)
    at = 0
    for r in parts:
        rows[at : at + len(r), : r.shape[1]] = r
        at += len(r)
    sketch = np.repeat(np.arange(len(parts), dtype=np.uint8), [len(r) for r in parts])
    nothing = np.full((count, 2), np.nan, dtype=np.float16)
    return Recording(
        name, program, target, sketches, sketch, rows, np.full(count, np.nan, np.float32), nothing
    )


def measure(recording: Recording, seed: int) -> None:
    """Build and time, in random order, every candidate that was not: in place."""
    everything = list(recording.candidates())
    order = np.random.default_rng(seed).permutation(len(everything))
    waiting = [int(i) for i in order if np.isnan(recording.cost_s[i, 0])]
    print(f"{recording.name}: {len(everything)} candidates, {len(waiting)} to measure", flush=True)
    task = run_task(recording.program, recording.target, seed)
    statuses: Counter[str] = Counter()
    began = saved = time.perf_counter()
    with (
        Runner(task, PROTOCOL) as runner,
        BuildPool.beside_runs(1, PROTOCOL) as pool,
        reserved_cores(1),
    ):
        pipeline = Pipeline(recording.program, recording.target, pool, runner)
        while waiting or pipeline.in_flight:
            while waiting and len(pipeline.in_flight) < IN_FLIGHT:
                i = waiting.pop()
                c = everything[i]
                pipeline.submit(Trial(i, recording.sketches[c.sketch].decode(c.row)))
            for trial in pipeline.collect(recording.fastest):
                m = trial.measurement
                assert m is not None
                statuses[m.status.value] += 1
                recording.seconds[trial.number] = m.time_s if m.ok else math.nan
                recording.cost_s[trial.number] = (trial.build_s, m.run_s)
            if time.perf_counter() - saved > SAVE_EVERY_S:
                saved = time.perf_counter()
                recording.save()
                rate = statuses.total() / (saved - began)
                print(f"  {len(waiting)} to go, {rate:.1f} a second, {dict(statuses)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("operator")
    parser.add_argument("--candidates", type=int, default=12_000)
    parser.add_argument("--sketches", type=int, default=4)
    parser.add_argument("--trials", type=int, default=64, help="of the run that finds the part of the space")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    exists = (DATA / f"{options.name}.npz").exists()
    recording = Recording.load(options.name) if exists else planned(options.name, options.operator, options)
    measure(recording, options.seed)
    print(f"{recording.save()}: best {recording.best_s * 1e6:.1f} µs")


if __name__ == "__main__":
    main()
