"""The headline figures, measured side by side in one run on one pinned core, printed as a table.

    python benchmarks/headline.py [--trials 64] [--only NAME …] [--json FILE]

Each kernel is tuned afresh into a temporary database by the command line, loaded as users load it, compared
with NumPy's result, and timed in turn with its peer: median of many samples, with the spread. Run it on a
quiet machine; two threads and wall-clock figures suffer first from company.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

import tunesmith
from tunesmith.frontend import operator
from tunesmith.ir import Program, flops, min_bytes
from tunesmith.measure import detect_target
from tunesmith.tuning import Kernel

COMMAND = [sys.executable, "-m", "tunesmith.cli.main"]
SAMPLES = 31
SAMPLE_S = 0.01


@dataclass(frozen=True)
class Row:
    """One figure: what was asked, what it is, and whether it suffices."""

    name: str
    figure: str
    wanted: str
    passed: bool


@dataclass(frozen=True)
class Timing:
    median_s: float
    spread: float


def interleave(*calls: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> list[Timing]:
    """Time several calls in turn, batches of about SAMPLE_S each.

    One thread is timed by its own CPU time: other processes take turns on the core, and their turns are not
    the kernel's. Several threads need the wall clock.
    """
    counts = []
    for call in calls:
        call()
        began = clock()
        call()
        counts.append(max(1, round(SAMPLE_S / max(clock() - began, 1e-7))))
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(SAMPLES):
        for call, n, out in zip(calls, counts, samples, strict=True):
            began = clock()
            for _ in range(n):
                call()
            out.append((clock() - began) / n)
    return [_timing(s) for s in samples]


def _timing(samples: Sequence[float]) -> Timing:
    low, mid, high = statistics.quantiles(samples, n=4)
    return Timing(mid, (high - low) / mid)


@dataclass(frozen=True)
class Tuned:
    program: Program
    kernel: Kernel
    arrays: list[np.ndarray]
    wall_s: float
    first_s: float
    idle: float


def tune(operator_text: str, db: str, trials: int, threads: int = 1) -> Tuned:
    """Tune through the command line as a user does, noting when the first better kernel is on screen."""
    command = [
        "taskset",
        "-c",
        ",".join(map(str, ALL_CPUS)),
        *COMMAND,
        "tune",
        operator_text,
        "--trials",
        str(trials),
        "--threads",
        str(threads),
    ]
    began = time.perf_counter()
    first = 0.0
    with subprocess.Popen(
        [*command, "--fresh", "--db", db], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None and process.stdout is not None
        for line in process.stderr:
            ahead = re.search(r"([\d.]+)× untuned", line)
            if not first and ahead and float(ahead[1]) > 1:
                first = time.perf_counter() - began
        output = process.stdout.read()
    wall = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}\n{output}")
    idle = float((re.search(r"idle (\d+) %", output) or ["", "nan"])[1]) / 100
    program = operator(operator_text)
    kernel = tunesmith.load(program, db=db, threads=threads)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in program.inputs]
    return Tuned(program, kernel, arrays, wall, first, idle)


def compare(tuned: Tuned, peer: Callable[..., np.ndarray]) -> tuple[Timing, Timing]:
    """Check against the peer's result, then time both in turn."""
    arrays = tuned.arrays
    expected = peer(*arrays)
    got = tuned.kernel(*arrays)
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3 * float(np.abs(expected).max()))
    mine, other = interleave(lambda: tuned.kernel(*arrays, out=got), lambda: peer(*arrays))
    return mine, other


class Bench:
    def __init__(self, trials: int, folder: str) -> None:
        self.trials = trials
        self.db = f"sqlite:///{folder}/bench.db"
        self.rows: list[Row] = []
        self.idle: list[float] = []
        self.target = detect_target(1, cache_path=Path(folder), fresh=True)
        self.peak = self.target.peaks.f32_gflops

    def add(self, name: str, figure: str, wanted: str, passed: bool) -> None:
        self.rows.append(Row(name, figure, wanted, passed))
        print(f"{'ok  ' if passed else 'MISS'} {name:34} {figure:58} wanted {wanted}", flush=True)

    def tune(self, text: str, threads: int = 1) -> Tuned:
        tuned = tune(text, self.db, self.trials, threads)
        self.idle.append(tuned.idle)
        return tuned

    def matmul(self) -> None:
        tuned = self.tune("matmul(512,512,512)")
        out = np.empty((512, 512), np.float32)
        mine, numpy = compare(tuned, lambda a, b: np.matmul(a, b, out=out))
        gflops = flops(tuned.program) / mine.median_s / 1e9
        share, ratio = gflops / self.peak, numpy.median_s / mine.median_s
        figure = f"{gflops:.1f} GFLOP/s = {share:.1%} of {self.peak:.1f} (spread {mine.spread:.1%})"
        self.add("matmul 512³, of the FMA peak", figure, "93 %", share >= 0.93)
        self.add(
            "matmul 512³, against NumPy",
            f"× {ratio:.3f} (NumPy's spread {numpy.spread:.1%})",
            "above 1",
            ratio > 1,
        )
        self.add(
            "matmul 512³, start to end",
            f"{tuned.wall_s:.1f} s for {self.trials} trials",
            "20 s",
            tuned.wall_s <= 20,
        )
        self.add("first better kernel on screen", f"{tuned.first_s:.2f} s", "3 s", 0 < tuned.first_s <= 3)

    def odd(self) -> None:
        for m, n, k in ((197, 197, 197), (127, 251, 61)):
            tuned = self.tune(f"matmul({m},{n},{k})")
            out = np.empty((m, n), np.float32)
            mine, numpy = compare(tuned, lambda a, b, out=out: np.matmul(a, b, out=out))
            ratio = numpy.median_s / mine.median_s
            gflops = flops(tuned.program) / mine.median_s / 1e9
            self.add(
                f"matmul {m}×{n}×{k}, against NumPy",
                f"× {ratio:.2f} ({gflops:.1f} GFLOP/s)",
                "× 1.0",
                ratio >= 1,
            )

    def convolution(self) -> None:
        tuned = self.tune("conv2d(n=1,h=56,w=56,ci=64,co=64,k=3,stride=1,pad=1,bias=True,act='relu')")
        out = tuned.kernel(*tuned.arrays)
        np.testing.assert_allclose(out, _convolve(*tuned.arrays), rtol=2e-3, atol=1e-2)
        (mine,) = interleave(lambda: tuned.kernel(*tuned.arrays, out=out))
        nominal = 2 * 56 * 56 * 64 * 64 * 9 / mine.median_s / 1e9
        share = nominal / self.peak
        figure = f"{nominal:.1f} GFLOP/s = {share:.1%} of {self.peak:.1f} (spread {mine.spread:.1%})"
        self.add("conv2d 56×56×64 k3, bias, ReLU", figure, "95 %", share >= 0.95)

    def rows_of_data(self) -> None:
        tuned = self.tune("softmax(1536,128)")
        mine, numpy = compare(tuned, _softmax)
        ratio = numpy.median_s / mine.median_s
        self.add(
            "softmax 1536×128, against NumPy",
            f"× {ratio:.2f} ({mine.median_s * 1e6:.0f} µs)",
            "× 4",
            ratio >= 4,
        )
        tuned = self.tune("sumsq(256,256)")
        mine, numpy = compare(tuned, lambda x: (x * x).sum(axis=1))
        (einsum,) = interleave(lambda: np.einsum("ij,ij->i", tuned.arrays[0], tuned.arrays[0]))
        ratio, other = numpy.median_s / mine.median_s, einsum.median_s / mine.median_s
        figure = f"× {ratio:.2f} ({mine.median_s * 1e6:.1f} µs a call from Python; × {other:.2f} np.einsum)"
        self.add("(x*x).sum(axis=1) on 256×256", figure, "× 4", ratio >= 4)

    def bandwidth(self) -> None:
        tuned = self.tune("relu_muladd(16777216)")
        arrays = tuned.arrays
        out = tuned.kernel(*arrays)
        np.testing.assert_allclose(
            out, np.maximum(arrays[0] * arrays[1] + arrays[2], 0), rtol=1e-5, atol=1e-5
        )
        (mine,) = interleave(lambda: tuned.kernel(*arrays, out=out))
        rate = min_bytes(tuned.program) / mine.median_s / 1e9
        share = rate / self.target.peaks.dram_gbs
        figure = f"{rate:.1f} GB/s = {share:.0%} of {self.target.peaks.dram_gbs:.1f} GB/s read"
        self.add("relu(a*b+c), 16 Mi elements", figure, "90 %", share >= 0.9)

    def threads(self) -> None:
        if self.target.cores < 2:
            return
        one, two = self.tune("matmul(1024,1024,1024)"), self.tune("matmul(1024,1024,1024)", 2)
        outs = [np.empty((1024, 1024), np.float32) for _ in range(2)]
        with unpinned():
            a, b = interleave(
                lambda: one.kernel(*one.arrays, out=outs[0]),
                lambda: two.kernel(*two.arrays, out=outs[1]),
                clock=time.perf_counter,
            )
        np.testing.assert_allclose(one.kernel(*one.arrays), two.kernel(*two.arrays), rtol=1e-3, atol=1e-3)
        ratio = a.median_s / b.median_s
        self.add(
            "two threads, matmul 1024³",
            f"× {ratio:.2f} ({a.median_s * 1e3:.1f} → {b.median_s * 1e3:.1f} ms)",
            "× 1.7",
            ratio >= 1.7,
        )

    def overhead(self) -> None:
        if self.idle:
            worst = max(self.idle)
            figure = (
                f"median {statistics.median(self.idle):.0%}, worst {worst:.0%} over {len(self.idle)} runs"
            )
            self.add("neither compiling nor running", figure, "15 %", statistics.median(self.idle) <= 0.15)

    def commands(self) -> None:
        self.tune("matmul(128,128,128)")
        best = ["best", "matmul(128,128,128)", "--db", self.db]
        for args, limit in ((["--version"], 0.15), (best, 0.4)):
            times = []
            for _ in range(11):
                began = time.perf_counter()
                subprocess.run([*COMMAND, *args], check=True, capture_output=True)
                times.append(time.perf_counter() - began)
            median = statistics.median(times)
            self.add(
                f"tunesmith {args[0]}", f"{median * 1e3:.0f} ms", f"{limit * 1e3:.0f} ms", median <= limit
            )


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _convolve(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(1, 2))
    return np.maximum(np.einsum("nhvcrs,rsco->nhvo", windows, w, optimize=True) + b, 0)


PARTS = ("matmul", "odd", "convolution", "rows_of_data", "bandwidth", "threads", "commands", "overhead")
ALL_CPUS = os.sched_getaffinity(0)


@contextmanager
def unpinned() -> Iterator[None]:
    """On all cores for a while."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ALL_CPUS)
    yield
    os.sched_setaffinity(0, cpus)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tunesmith-bench-") as folder:
        bench = Bench(options.trials, folder)
        os.sched_setaffinity(0, {max(ALL_CPUS)})
        print(f"{bench.target.model}, {bench.target.cpu}, NumPy {np.__version__}; peaks {bench.target.peaks}")
        for part in options.only:
            getattr(bench, part)()
    if options.json:
        data = {"target": bench.target.to_json(), "rows": [asdict(r) for r in bench.rows]}
        options.json.write_text(json.dumps(data, indent=1))
    return 0 if all(r.passed for r in bench.rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
