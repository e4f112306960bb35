"""What neighbours are worth: tuning from an empty database against one that knows other shapes.

    python benchmarks/warm.py [--trials 24] [--known 48] [--seeds 3]

A figure is the fastest time of all runs of a task over the best of the first so many candidates, the untuned
schedule not counted: the median over seeds, in percent. The last columns are an estimate (`tunesmith best
--near`) before anything is measured: the estimated time and that of its schedule over the fastest, and the
loss that was stated.
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tunesmith.db import Store, open_store
from tunesmith.frontend import operator
from tunesmith.measure import detect_target
from tunesmith.tuning import Event, TuneOptions
from tunesmith.tuning.near import confirm, estimate
from tunesmith.tuning.tuner import tune

AT = (1, 4, 8, 16)


@dataclass(frozen=True)
class Task:
    wanted: str
    known: tuple[str, ...]


def _conv(size: int, channels: int) -> str:
    return f"conv2d(h={size},w={size},ci={channels},co={channels},k=3,pad=1)"


TASKS = (
    Task("matmul(384,384,384)", ("matmul(512,512,512)", "matmul(256,256,256)", "matmul(384,768,192)")),
    Task(_conv(28, 96), (_conv(28, 128), _conv(56, 64), _conv(14, 128))),
    Task("softmax(512,1000)", ("softmax(512,768)", "softmax(1024,1024)", "softmax(128,1500)")),
    Task("attention(h=12,m=128,d=64)", ("attention(h=12,m=64,d=64)", "attention(h=8,m=192,d=64)")),
)


def curve(text: str, options: TuneOptions, store: Store) -> list[float]:
    """Best seconds after each candidate, the untuned schedule left out."""
    best, out = float("inf"), []

    def note(event: Event) -> None:
        nonlocal best
        if event.record is not None and event.record.trial > 0:
            best = min(best, event.record.time_s if event.record.measurement.ok else best)
            out.append(best)

    tune(operator(text), options, store, note)
    return out


def run(task: Task, trials: int, known: int, seeds: int, folder: Path) -> None:
    cold, warm = [], []
    base = folder / "known.db"
    with open_store(base) as store:
        for text in task.known:
            tune(operator(text), TuneOptions(trials=known), store)
        answer = estimate(operator(task.wanted), detect_target(1), store)
    for seed in range(seeds):
        options = TuneOptions(trials=trials, seed=seed)
        with open_store(folder / f"cold{seed}.db") as store:
            cold.append(curve(task.wanted, options, store))
        copy = folder / f"warm{seed}.db"
        copy.write_bytes(base.read_bytes())
        with open_store(copy) as store:
            warm.append(curve(task.wanted, options, store))
    with open_store(base) as store:
        first_s = confirm(operator(task.wanted), answer, store).time_s
    fastest = min(c[-1] for c in cold + warm)
    print(f"{task.wanted}: fastest {1e6 * fastest:.1f} µs, {len(task.known)} shapes known")
    for name, curves in (("cold", cold), ("warm", warm)):
        found = (median(fastest / c[min(n, len(c)) - 1] for c in curves) for n in AT)
        print(f"  {name}", *(f"{share:8.1%}" for share in found))
    print(
        f"  estimate: time {answer.time_s / fastest:.2f}, measured {first_s / fastest:.2f},"
        f" loss stated {answer.loss:.1%} ({answer.basis})",
        flush=True,
    )


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--known", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    print("      ", *(f"{n:8}" for n in AT), " candidates")
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            run(task, args.trials, args.known, args.seeds, Path(folder))


if __name__ == "__main__":
    main()
