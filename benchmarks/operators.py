"""Every operator of the list side by side with its peers, on one pinned core, calls interleaved.

    python benchmarks/operators.py [NAME …] [--trials 256] [--db FILE] [--json FILE]

A name selects workloads that begin with it. Kernels are tuned into the database first (a run goes on where
the last one stopped); then ours and every installed peer are checked against each other and timed in turn:
median of at least 20 samples. GFLOP/s are nominal. Needs a quiet machine.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from peers import peers_for, spec_of
from workloads import WORKLOADS, Workload

import tunesmith
from tunesmith.db import open_store
from tunesmith.frontend import operator
from tunesmith.measure import detect_target
from tunesmith.tuning import TuneOptions
from tunesmith.tuning.tuner import tune

SAMPLES = 25
SAMPLE_S = 0.006


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds a call, samples taken in turn."""
    counts = {}
    for name, call in calls.items():
        call()
        began = time.perf_counter()
        call()
        counts[name] = max(1, round(SAMPLE_S / max(time.perf_counter() - began, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(SAMPLES):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(counts[name]):
                call()
            samples[name].append((time.perf_counter() - began) / counts[name])
    return {name: statistics.median(s) for name, s in samples.items()}


def compare(workload: Workload, db: str) -> dict[str, Any]:
    """Times of our kernel and its peers on the same data, results compared."""
    program = operator(workload.operator)
    kernel = tunesmith.load(program, db=db)
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.uniform(-1, 1, t.shape).astype(np.float32) for t in program.inputs}
    mine = list(arrays.values())
    out = kernel(*mine)
    calls: dict[str, Callable[[], object]] = {"tunesmith": lambda: kernel(*mine, out=out)}
    for name, (result, call) in peers_for(spec_of(workload.operator), arrays).items():
        other = result().reshape(out.shape)
        np.testing.assert_allclose(
            out, other, rtol=2e-3, atol=2e-3 * float(np.abs(other).max()), err_msg=name
        )
        calls[name] = call
    return {"name": workload.name, "flops": workload.flops, "times_s": interleaved(calls)}


def line(row: dict[str, Any], peak: float) -> str:
    times = dict(row["times_s"])
    mine = times.pop("tunesmith")
    best = min(times, key=lambda n: times[n]) if times else ""
    gflops = row["flops"] / mine / 1e9
    others = "  ".join(f"{n} {t * 1e6:.1f}" for n, t in times.items())
    ratio = f"× {times[best] / mine:.2f} {best}" if best else ""
    speed = f"{mine * 1e6:10.1f} µs {gflops:7.1f} GFLOP/s {gflops / peak:6.1%}"
    return f"{row['name']:13} {speed}  {ratio:22} {others}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of workload names; all when left out")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--db", default="sqlite:///operators.db")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = [w for w in WORKLOADS if not options.names or w.name.startswith(tuple(options.names))]
    with open_store(options.db) as store:
        for w in chosen:
            result = tune(operator(w.operator), TuneOptions(trials=options.trials), store)
            print(f"{w.name}: {result.trials} trials in {result.elapsed_s:.0f} s", flush=True)
    target = detect_target(1, fresh=True)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = []
    for w in chosen:
        rows.append(compare(w, options.db))
        print(line(rows[-1], target.peaks.f32_gflops), flush=True)
    ratios = [
        min(t for n, t in r["times_s"].items() if n != "tunesmith") / r["times_s"]["tunesmith"]
        for r in rows
        if len(r["times_s"]) > 1
    ]
    if ratios:
        print(f"geometric mean against the best peer of each: × {statistics.geometric_mean(ratios):.3f}")
    if options.json:
        options.json.write_text(json.dumps({"target": target.to_json(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
