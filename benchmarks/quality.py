"""The search against a long one, on workloads that the shipped model was not trained on.

    python benchmarks/quality.py [--workloads NAME …] [--long 1000] [--seeds 5] [--folder DIR] [--json FILE]

Of each workload one long run, which no plateau ends; then for each seed the kernel that is chosen with no
measurement at all, after 16 and after 64 trials, every run in a process and a database of its own. All chosen
kernels are compared with NumPy's reference, then timed in turn with the long run's on one pinned core.
Quality is the long one's time over the chosen one's: the median over seeds, least to most.

With ``--folder`` the long runs are kept there and not done again. A name is one of the default list, one of
``workloads.py`` or a named operator with its arguments. Needs a quiet machine, for about 25 minutes.

Models know shapes of the families that they were trained on; the last two of the list are of none. To hold
out other families, train a model without them (docs/model.md) and name it in TUNESMITH_MODEL.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from held_out import seen_in_training
from runs import Memory, Round, Run, program_of, run_apart
from sampling import Timing, interleaved
from workloads import workloads

from tunesmith.codegen import build
from tunesmith.costmodel import Ranker
from tunesmith.frontend import operator
from tunesmith.ir import Program, canonical, evaluate
from tunesmith.measure import detect_target
from tunesmith.records import Target
from tunesmith.schedule import Schedule
from tunesmith.search import derive
from tunesmith.search.population import sample
from tunesmith.tuning.guess import guess
from tunesmith.tuning.kernel import Kernel, aligned_empty
from tunesmith.tuning.pretrained import pretrained

DEFAULT = {
    "matmul": "matmul(127,251,61)",
    "conv2d": "conv2d(h=28,w=28,ci=96,co=96,k=3,pad=1)",
    "depthwise": "depthwise_conv2d(h=56,w=56,c=64,k=3,pad=1)",
    "batch_matmul": "batch_matmul(12,128,128,64)",
    "attention": "attention(h=12,m=128,d=64)",
    "softmax": "softmax(1536,128)",
    "distances": """
def distances(a: f32[256, 64], b: f32[200, 64]):
    d[i, j] = sum((a[i, k] - b[j, k]) * (a[i, k] - b[j, k]), k)
    return d
""",
    "gated": """
def gated(x: f32[48, 256], v: const[f32[256, 320]], w: const[f32[256, 320]]):
    a[i, o] = sum(x[i, k] * v[k, o], k)
    b[i, o] = sum(x[i, k] * w[k, o], k)
    return a * sigmoid(a) * b
""",
}
BUDGETS = (0, 16, 64)
ASKED = {0: 0.85, 16: 0.93, 64: 0.98}
ASKED_S, ASKED_RATE, ASKED_OVERHEAD, ASKED_TRAINING_S = 10.0, 15.0, 0.10, 0.3
RECORDS = 2000  # that a round of training is timed with
FLAT = 1.1  # memory at the end over that after 100 trials
TOLERANCE = 2e-3  # of the largest value
MIB = 1 << 20


@dataclass(frozen=True)
class Result:
    """``quality``: by trials, one value a seed. ``runs``: the short ones, by trials."""

    name: str
    long: Run
    best: Timing
    quality: dict[int, list[float]]
    runs: dict[int, list[Run]]


def source_of(name: str) -> str:
    listed = {w.name: w.operator for w in workloads()}
    return (DEFAULT.get(name) or listed.get(name) or name).strip()


def long_run(name: str, trials: int, folder: Path, target: Target) -> Run:
    """The run that is in the folder, or a new one that goes on where an interrupted one stopped."""
    stem = "".join(c if c.isalnum() else "-" for c in name)
    kept = folder / f"{stem}.json"
    if kept.exists():
        run = Run.from_json(json.loads(kept.read_text()))
        if run.fingerprint == target.fingerprint and (run.trials >= trials or run.stopped_by == "exhausted"):
            return run
    run = run_apart(source_of(name), folder / f"{stem}.db", trials, seed=0, stubborn=True)
    kept.write_text(json.dumps(run.to_json()))
    return run


def short_run(name: str, trials: int, seed: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        return run_apart(source_of(name), Path(folder) / "short.db", trials, seed)


def measured(name: str, options: argparse.Namespace, folder: Path, target: Target) -> Result:
    """All runs of a workload, and the times of what they chose."""
    form = canonical(program_of(source_of(name)))
    long = long_run(name, options.long, folder, target)
    seeds = range(1, options.seeds + 1)  # the long run's is another
    runs = {n: [short_run(name, n, s) for s in seeds] for n in BUDGETS if n}
    chosen = {n: [Schedule.from_json(r.schedule) for r in found] for n, found in runs.items()}
    chosen[0] = [guess(form, target, s)[0] for s in seeds]
    best = Schedule.from_json(long.schedule)
    schedules = {s.hash: s for s in (best, *(s for found in chosen.values() for s in found))}
    times = timed(form, schedules, target)
    quality = {n: [times[best.hash].median_s / times[s.hash].median_s for s in chosen[n]] for n in BUDGETS}
    return Result(name, long, times[best.hash], quality, runs)


def timed(form: Program, schedules: Mapping[str, Schedule], target: Target) -> dict[str, Timing]:
    """Each kernel in turn on the same arrays, after its result was compared."""
    rng = np.random.default_rng(0)
    arrays = {t.name: aligned_empty(t.shape, t.dtype.numpy) for t in form.inputs}
    for array in arrays.values():
        array[...] = rng.uniform(-1, 1, array.shape)
    expected = list(evaluate(form, arrays, None).values())
    calls = {}
    for key, schedule in schedules.items():
        kernel = Kernel(form, schedule, build(form, schedule, target))
        out = kernel(*arrays.values())
        for got, right in zip(out if isinstance(out, tuple) else (out,), expected, strict=True):
            np.testing.assert_allclose(got, right, rtol=0, atol=TOLERANCE * max(1.0, np.abs(right).max()))
        calls[key] = lambda kernel=kernel, out=out: kernel(*arrays.values(), out=out)
    with pinned():
        return interleaved(calls, time.thread_time)


class pinned:
    """On the last core for a while."""

    def __enter__(self) -> None:
        self.cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(self.cpus)})

    def __exit__(self, *error: object) -> None:
        os.sched_setaffinity(0, self.cpus)


def training_s(target: Target) -> float:
    """Seconds of a round with so many records: real features, made-up times."""
    program = canonical(operator("matmul(512,512,512)"))
    space = derive(program, target)
    ranker = Ranker(program, space.sketches, target, 0, pretrained().model)
    rng = np.random.default_rng(0)
    outcomes = []
    for i in rng.integers(len(space.sketches), size=RECORDS // 50).tolist():
        for row in sample(space.sketches[i], 50, rng):
            outcomes.append((i, tuple(map(int, row)), float(rng.lognormal(-7.0, 0.5))))
    ranker.observe(outcomes[:-40])
    seconds = []
    for first in range(len(outcomes) - 40, len(outcomes), 8):
        began = time.perf_counter()
        ranker.observe(outcomes[first : first + 8])
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


# -- what is printed ----------------------------------------------------------------------------------------


def growth(memory: Sequence[Memory]) -> float:
    """The most after the first hundred trials, over what there was then."""
    sizes = [m.tuner + m.workers for m in memory]
    return max(sizes) / sizes[0] if sizes else float("nan")


def memory_text(memory: Sequence[Memory]) -> str:
    if not memory:
        return "no trials measured"
    first, last = memory[0], memory[-1]
    return (
        f"tuner {first.tuner / MIB:.0f} → {last.tuner / MIB:.0f} MiB, workers {first.workers / MIB:.0f} → "
        f"{last.workers / MIB:.0f} MiB from trial {first.trials} to {last.trials}, "
        f"at most × {growth(memory):.2f}"
    )


def training_text(rounds: Sequence[Round]) -> str:
    late = [r.seconds for r in rounds[-10:]]
    return f"learning {statistics.median(late):.2f} s a round at the end" if late else "nothing learnt"


def spread(values: Sequence[float], style: str = ".1%") -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{style}} ({low:{style}}–{high:{style}})"


def lines(r: Result) -> Iterator[str]:
    yield f"{r.name}: {r.best.median_s * 1e6:.1f} µs ± {r.best.spread:.0%} after {r.long.trials} trials"
    yield "  quality  " + "   ".join(f"{n}: {spread(r.quality[n])}" for n in BUDGETS)
    most = max(BUDGETS)
    short = r.runs[most]
    yield (
        f"  {spread([s.trials for s in short], '.0f')} of {most} trials in "
        f"{spread([s.wall_s for s in short], '.1f')} s, of which the tuner "
        f"{spread([s.seconds for s in short], '.1f')} s; {spread([s.trials_a_second for s in short], '.1f')} "
        f"a second; overhead {spread([s.overhead for s in short], '.0%')}"
    )
    if r.long.measured:
        long = r.long
        yield (
            f"  long run {long.seconds:.0f} s, {long.trials_a_second:.1f} trials a second, overhead "
            f"{long.overhead:.0%}; build {long.build_s:.0f} s, run {long.run_s:.0f} s, "
            f"search {long.search_s:.0f} s; ended: {long.stopped_by}"
        )
        yield f"  {memory_text(long.memory)}; {training_text(long.rounds)}"


def summary(results: Sequence[Result], round_s: float) -> Iterator[str]:
    yield f"{'':44} {'measured':>10} {'asked':>8}"
    for n in BUDGETS:
        mean = statistics.geometric_mean([statistics.median(r.quality[n]) for r in results])
        yield row(f"quality with {n} trials, geometric mean", f"{mean:.1%}", f"≥ {ASKED[n]:.0%}")
    most = max(BUDGETS)
    short = [s for r in results for s in r.runs[most]]
    walls = [statistics.median([s.wall_s for s in r.runs[most]]) for r in results]
    yield row(f"seconds for {most} trials, the slowest workload", f"{max(walls):.1f}", f"≤ {ASKED_S:g}")
    whole = [s for s in short if s.measured == most]  # the start counts more in those that end early
    longs = [r.long for r in results if r.long.measured]
    for name, runs in ((f"runs of {most}", whole), ("long runs", longs)):
        if runs:
            rate = statistics.median([s.trials_a_second for s in runs])
            yield row(f"trials a second in {name}, median", f"{rate:.1f}", f"≥ {ASKED_RATE:g}")
            overhead = statistics.median([s.overhead for s in runs])
            yield row(f"overhead in {name}, median", f"{overhead:.1%}", f"≤ {ASKED_OVERHEAD:.0%}")
    if longs:
        most_growth = max(growth(long.memory) for long in longs)
        yield row("memory after the first 100 trials, at most", f"× {most_growth:.2f}", f"≤ {FLAT:g}")
    yield row(f"training a round at {RECORDS} records, seconds", f"{round_s:.2f}", f"≤ {ASKED_TRAINING_S:g}")


def row(name: str, figure: str, wanted: str) -> str:
    return f"{name:44} {figure:>10} {wanted:>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="*", default=list(DEFAULT), metavar="NAME")
    parser.add_argument("--long", type=int, default=1000, help="trials of the long run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where long runs are kept")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    target = detect_target(1)
    print(f"{target.model}, {target.cpu}; model: {pretrained().reason}", flush=True)
    known = [n for n in options.workloads if seen_in_training(program_of(source_of(n)))]
    if known:
        raise SystemExit(f"the model may have been trained on {', '.join(known)}: not held out")
    round_s = training_s(target)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.workloads:
            results.append(measured(name, options, folder, target))
            print("\n".join(lines(results[-1])), flush=True)
    print("\n".join(summary(results, round_s)))
    if options.json:
        data = {"target": target.to_json(), "training_s": round_s, "results": [asdict(r) for r in results]}
        options.json.write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
