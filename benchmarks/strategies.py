"""Strategies of search compared on recordings: regret against trials and against seconds, over many seeds.

    python benchmarks/strategies.py [STRATEGY …] [--recordings NAME …] [--seeds 10] [--trials 128]
    python benchmarks/strategies.py --ablation

A figure is the time of the best kernel in the recording over that of the best one found so far, in percent:
the median over seeds, and the worst tenth. Measuring is looked up; proposing, learning and ranking are real.
Seconds are what the recording says that building and running took, in a pipeline where one is done beside the
other, and what the search itself takes. Batches are proposed as the tuner does, one ahead of what it knows.

``--ablation`` takes one part at a time from the whole: the prior (its features stay, the model that was
trained on top of it goes), pretraining, learning on the way, and the descent at the end.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from held_out import seen_in_training
from numpy.typing import NDArray
from recording import DATA, Recording

from tunesmith.costmodel import Ranker
from tunesmith.search import Candidate, Search, SearchConfig
from tunesmith.search.ports import CostModel
from tunesmith.tuning.pretrained import pretrained

AT_TRIALS = (1, 4, 8, 16, 32, 64, 128, 256, 512)
AT_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
_FIRST, _BATCH = 4, 8


class Blind:
    """No model: every candidate is as good as any other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def features(self, sketch: int, population: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.zeros((len(population), 1), dtype=np.float32)

    def predict(self, sketches: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.float64]:
        return self.rng.uniform(1.0, 1.001, len(features))

    def imagine(
        self, sketches: NDArray[np.int64], features: NDArray[np.float32], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        return self.predict(sketches, features)

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        pass


class Fixed(Ranker):
    """What is known at first, and nothing more."""

    def observe(self, outcomes: Sequence[tuple[int, tuple[int, ...], float | None]]) -> None:
        pass


class Level(Ranker):
    """Features without the prior's time: all candidates are alike until something is measured."""

    def features(self, sketch: int, population: NDArray[np.int64]) -> NDArray[np.float32]:
        found = super().features(sketch, population)
        found[:, -1] = 0.0
        return found


@dataclass(frozen=True)
class Strategy:
    model: Callable[[Recording, int], CostModel]
    config: SearchConfig = field(default_factory=SearchConfig)


def _full(r: Recording, seed: int) -> Ranker:
    return Ranker(r.program, r.sketches, r.target, seed, pretrained().model)


def _untaught(r: Recording, seed: int) -> Ranker:
    return Ranker(r.program, r.sketches, r.target, seed)


def _prior(r: Recording, seed: int) -> Ranker:
    return Fixed(r.program, r.sketches, r.target, seed)


def _fixed(r: Recording, seed: int) -> Ranker:
    return Fixed(r.program, r.sketches, r.target, seed, pretrained().model)


def _level(r: Recording, seed: int) -> Ranker:
    return Level(r.program, r.sketches, r.target, seed)


_RANDOM = SearchConfig(descend_share=0.0, generations=0, early=0)
_DESCENT = replace(SearchConfig(), descend_share=1.0)
_NO_DESCENT = replace(SearchConfig(), descend_share=0.0)
STRATEGIES = {
    "random": Strategy(lambda r, s: Blind(s), _RANDOM),
    "descent": Strategy(lambda r, s: Blind(s), _DESCENT),  # on measured times, without any model
    "prior": Strategy(_prior),  # and nothing learnt
    "pretrained": Strategy(_fixed),  # and nothing learnt on the way
    "no prior": Strategy(_level),
    "no pretraining": Strategy(_untaught),
    "no descent": Strategy(_full, _NO_DESCENT),
    "full": Strategy(_full),
}
ABLATION = ("full", "no prior", "no pretraining", "pretrained", "no descent")


@dataclass(frozen=True)
class Curve:
    """Best seconds known after each trial, and wall seconds at its end."""

    best_s: list[float]
    wall_s: list[float]

    def after(self, trials: int) -> float:
        return self.best_s[min(trials, len(self.best_s)) - 1]

    def at(self, seconds: float) -> float:
        n = int(np.searchsorted(self.wall_s, seconds, side="right"))
        return self.best_s[n - 1] if n else float("inf")


def simulate(recording: Recording, strategy: Strategy, seed: int, trials: int) -> Curve:
    """One run, as the tuner would do it."""
    model = strategy.model(recording, seed)
    search = Search(recording.space, model, np.random.default_rng(seed), strategy.config)
    best, bests, walls = float("inf"), [], []
    built = ran = 0.0  # when the builder and the runner are free
    thought = 0.0
    waiting: list[tuple[list[tuple[Candidate, float | None]], float]] = []
    while len(bests) < trials:
        began = time.perf_counter()
        count = min(_FIRST if len(bests) < _BATCH else _BATCH, trials - len(bests))
        batch = search.propose(count)
        thought += time.perf_counter() - began
        if not batch:
            break
        outcomes: list[tuple[Candidate, float | None]] = []
        for candidate in batch:
            seconds, build_s, run_s = recording.outcome(candidate)
            built = max(built, thought) + build_s
            ran = max(built, ran) + run_s
            best = min(best, seconds or float("inf"))
            bests.append(best)
            walls.append(ran)
            outcomes.append((candidate, seconds))
        waiting.append((outcomes, ran))
        if len(waiting) == 2:  # one batch is under way while the next is proposed
            told, ended = waiting.pop(0)
            thought = max(thought, ended)
            began = time.perf_counter()
            search.tell(told)
            thought += time.perf_counter() - began
    return Curve(bests, walls)


def row(name: str, values: NDArray[np.float64]) -> str:
    """Median and worst tenth of each column, over seeds."""
    cells = (f"{np.median(v):6.1%} {np.quantile(v, 0.1):6.1%}" for v in values.T)
    return f"{name:14} " + "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", help=", ".join(STRATEGIES))
    parser.add_argument("--ablation", action="store_true", help=", ".join(ABLATION))
    parser.add_argument("--recordings", nargs="*", default=sorted(p.stem for p in DATA.glob("*.npz")))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    trials = [t for t in AT_TRIALS if t <= options.trials]
    labels = options.strategies or (ABLATION if options.ablation else tuple(STRATEGIES))
    out = []
    for name in options.recordings:
        recording = Recording.load(name)
        if seen_in_training(recording.program):
            print(f"{name}: the model may have been trained on this one")
        failed = int(np.isnan(recording.seconds).sum())
        print(
            f"\n{name}: {len(recording.seconds)} candidates, {failed} failed, "
            f"best {recording.best_s * 1e6:.1f} µs"
        )
        print(
            " " * 14,
            "  ".join(f"{f'{t} trials':>13}" for t in trials),
            "  ".join(f"{f'{s:g} s':>13}" for s in AT_SECONDS),
        )
        for label in labels:
            curves = [
                simulate(recording, STRATEGIES[label], seed, options.trials) for seed in range(options.seeds)
            ]
            found = [[c.after(t) for t in trials] + [c.at(s) for s in AT_SECONDS] for c in curves]
            quality = recording.best_s / np.array(found)
            print(row(label, quality), flush=True)
            out.append(
                {
                    "recording": name,
                    "strategy": label,
                    "trials": trials,
                    "seconds": AT_SECONDS,
                    "quality": quality.tolist(),
                }
            )
    if options.json:
        options.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
