"""Every operator of the list side by side with its peers, on one pinned core, calls interleaved.

    python benchmarks/operators.py [NAME …] [--batch 16] [--trials 256] [--threads 2] [--json FILE]

A name selects workloads that begin with it. Kernels are tuned into the database first (a run goes on where
the last one stopped); then ours and every installed peer are compared with NumPy's reference and timed in
turn: medians of 20 samples or more, with the distance of the quartiles. Columns: GFLOP/s of the nominal
count and its fraction of the measured FMA peak; ``roof``, the time that the machine allows at best over ours;
our speed over that of the best peer.

The time at best is the larger of two: operations that are needed (none with padding) at the FMA peak, and
bytes of inputs and outputs at the bandwidth of the level that they fit in together. Functions such as exp
count one operation, so rows of them cannot reach 100 %.

``--threads 2`` adds to each kernel above 200 µs how much faster it runs on so many threads, tuned for them.
Needs a quiet machine, all the more with threads.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from peers import PEERS, peers_for, spec_of
from sampling import Timing, interleaved
from workloads import Workload, selected

import tunesmith
from tunesmith.db import open_store
from tunesmith.frontend import operator
from tunesmith.ir import Program, evaluate, min_bytes, needed_flops
from tunesmith.measure import detect_target
from tunesmith.records import Target
from tunesmith.tuning import TuneOptions
from tunesmith.tuning.kernel import aligned_empty
from tunesmith.tuning.tuner import tune

OURS = "tunesmith"
WORTH_THREADS_S = 200e-6
TOLERANCE = 2e-3  # of the largest value: some peers sum one after another


@dataclass(frozen=True)
class Row:
    """One workload: who took how long, and how long it takes at best."""

    name: str
    flops: int
    bound_s: float
    bound_by: str
    timings: dict[str, Timing]
    threaded: float | None = None  # times as fast with more threads

    @property
    def mine_s(self) -> float:
        return self.timings[OURS].median_s

    @property
    def best_peer(self) -> str | None:
        peers = [n for n in self.timings if n != OURS]
        return min(peers, key=lambda n: self.timings[n].median_s) if peers else None

    @property
    def ratio(self) -> float | None:
        """Our speed over that of the best peer."""
        return None if self.best_peer is None else self.timings[self.best_peer].median_s / self.mine_s


def bound(program: Program, target: Target) -> tuple[float, str]:
    """Seconds that no kernel of one thread beats, and what holds it back."""
    levels = (
        (target.l1d_bytes, target.peaks.l1_gbs, "L1"),
        (target.l2_bytes, target.peaks.l2_gbs, "L2"),
        (target.l3_bytes, target.peaks.l3_gbs, "L3"),
    )
    size = min_bytes(program)
    fits = ((gbs, name) for capacity, gbs, name in levels if size <= capacity)
    gbs, level = next(fits, (target.peaks.dram_gbs, "memory"))
    bytes_s, flops_s = size / (gbs * 1e9), needed_flops(program) / (target.peaks.f32_gflops * 1e9)
    return (bytes_s, level) if bytes_s > flops_s else (flops_s, "FMA")


def arrays_of(program: Program) -> dict[str, np.ndarray]:
    """The same for all, at the start of a cache line, where the libraries' own allocators put them."""
    rng = np.random.default_rng(0)
    arrays = {}
    for t in program.inputs:
        arrays[t.name] = aligned_empty(t.shape, np.dtype(np.float32))
        arrays[t.name][...] = rng.uniform(-1, 1, t.shape)
    return arrays


def call_of(program: Program, arrays: Sequence[np.ndarray], db: str, threads: int) -> Callable[[], Any]:
    """Our kernel on the same arrays every time."""
    kernel = tunesmith.load(program, db=db, threads=threads)
    out = kernel(*arrays)
    return lambda: kernel(*arrays, out=out)


def compare(workload: Workload, target: Target, db: str, peers: Iterable[str], threads: int) -> Row:
    """Times of our kernel and of its peers on the same data, results compared."""
    program = operator(workload.operator)
    arrays = arrays_of(program)
    mine = call_of(program, list(arrays.values()), db, 1)
    expected = list(evaluate(program, arrays, None).values())
    check(OURS, mine(), expected)
    calls: dict[str, Callable[[], object]] = {OURS: mine}
    for name, peer in peers_for(spec_of(workload.operator), arrays, peers).items():
        check(name, tuple(peer.results()), expected)
        calls[name] = peer.call
    row = Row(workload.name, workload.flops, *bound(program, target), interleaved(calls))
    if threads == 1 or row.mine_s < WORTH_THREADS_S:
        return row
    return Row(**{**vars(row), "threaded": scaling(program, list(arrays.values()), db, threads)})


def scaling(program: Program, arrays: Sequence[np.ndarray], db: str, threads: int) -> float:
    """How much faster the kernel tuned for more threads is than that for one, both by the wall clock."""
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        times = interleaved({str(n): call_of(program, arrays, db, n) for n in (1, threads)})
    finally:
        os.sched_setaffinity(0, pinned)
    return times["1"].median_s / times[str(threads)].median_s


def check(name: str, results: Any, expected: Sequence[np.ndarray]) -> None:
    found = results if isinstance(results, tuple) else (results,)
    for got, right in zip(found, expected, strict=True):
        atol = TOLERANCE * max(1.0, float(np.abs(right).max()))
        np.testing.assert_allclose(got.reshape(right.shape), right, rtol=0, atol=atol, err_msg=name)


HEADER = f"{'':13} {'time µs':>10} {'±':>4} {'GFLOP/s':>8} {'of peak':>8} {'roof':>7}       ratio"


def line(row: Row, target: Target) -> str:
    mine, gflops = row.timings[OURS], row.flops / row.mine_s / 1e9
    speed = (
        f"{row.mine_s * 1e6:10.1f} {mine.spread:4.0%} {gflops:8.1f} {gflops / target.peaks.f32_gflops:8.1%}"
    )
    roof = f"{row.bound_s / row.mine_s:7.1%} {row.bound_by:6}"
    ratio = f"× {row.ratio:.2f} {row.best_peer}" if row.ratio else ""
    peers = {n: t for n, t in row.timings.items() if n != OURS}
    others = "  ".join(f"{n} {t.median_s * 1e6:.1f} ±{t.spread:.0%}" for n, t in peers.items())
    threaded = f"  threads × {row.threaded:.2f}" if row.threaded else ""
    return f"{row.name:13} {speed} {roof} {ratio:19} {others}{threaded}"


def tune_all(chosen: Sequence[Workload], db: str, trials: int, threads: int) -> None:
    """For one thread, and for more what takes long enough."""
    with open_store(db) as store:
        for w in chosen:
            for n in sorted({1, threads}):
                result = tune(operator(w.operator), TuneOptions(trials=trials, threads=n), store)
                spent = f"{result.trials} trials in {result.elapsed_s:.0f} s"
                print(f"{w.name}, threads {n}: {spent}", flush=True)
                if result.best is None or result.best.time_s < WORTH_THREADS_S:
                    break


def environment(target: Target) -> dict[str, Any]:
    """What the figures hold for."""
    import importlib.metadata as metadata

    packages = ("numpy", "torch", "onnxruntime", "openvino", "llvmlite")
    found = {d.metadata["Name"].lower(): d.version for d in metadata.distributions()}
    versions = {p: found[p] for p in packages if p in found}
    return {
        "target": target.to_json(),
        "python": platform.python_version(),
        "versions": versions,
        "arguments": sys.argv[1:],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of workload names; all when left out")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--trials", type=int, default=256, help="0: measure what the database has")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--db", default=f"sqlite:///{Path(tempfile.gettempdir()) / 'operators.db'}")
    parser.add_argument("--peers", nargs="*", choices=tuple(PEERS), default=tuple(PEERS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = selected(options.names, options.batch)
    if options.trials:
        tune_all(chosen, options.db, options.trials, options.threads)
    target = detect_target(1, fresh=True)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = []
    print(HEADER)
    for w in chosen:
        rows.append(compare(w, target, options.db, options.peers, options.threads))
        print(line(rows[-1], target), flush=True)
    ratios = [r.ratio for r in rows if r.ratio is not None]
    if ratios:
        print(f"geometric mean against the best peer of each: × {statistics.geometric_mean(ratios):.3f}")
    if options.json:
        options.json.write_text(
            json.dumps(environment(target) | {"rows": [asdict(r) for r in rows]}, indent=1)
        )


if __name__ == "__main__":
    main()
