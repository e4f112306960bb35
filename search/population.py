"""Populations: integer matrices of knob indices, one row a candidate, and what evolution does to them."""

import numpy as np
from numpy.typing import NDArray

from tunesmith.schedule import Sketch

__all__ = ["Population", "crossover", "mutate", "neighbours", "repair", "sample", "satisfies", "transplant"]

Population = NDArray[np.int64]

_REPAIRS = 64  # steps down that a row is given to come under its ceilings


def sample(sketch: Sketch, count: int, rng: np.random.Generator) -> Population:
    """Random candidates under the sketch's ceilings."""
    if not sketch.knobs:
        return np.zeros((1, 0), dtype=np.int64)
    columns = [rng.integers(len(k.values), size=count) for k in sketch.knobs]
    return repair(sketch, np.stack(columns, axis=1), rng)


def repair(sketch: Sketch, population: Population, rng: np.random.Generator) -> Population:
    """Bring every row under the ceilings, one knob one step down at a time; drop rows that cannot be."""
    population = population.copy()
    for _ in range(_REPAIRS):
        broken = False
        for ceiling in sketch.ceilings:
            over = np.flatnonzero(~_under(sketch, population, ceiling.knobs, ceiling.bound))
            if not len(over):
                continue
            broken = True
            columns = np.array([sketch.column[k] for k in ceiling.knobs])
            order = rng.random((len(over), len(columns)))
            order[population[over][:, columns] == 0] = -1.0  # those are as low as they go
            chosen = columns[np.argmax(order, axis=1)]
            population[over, chosen] = np.maximum(population[over, chosen] - 1, 0)
        if not broken:
            return population
    return population[satisfies(sketch, population)]


def _under(sketch: Sketch, population: Population, knobs: tuple[str, ...], bound: int) -> NDArray[np.bool_]:
    total = np.ones(len(population))
    for name in knobs:
        i = sketch.column[name]
        total = total * np.asarray(sketch.knobs[i].values)[population[:, i]]
    under: NDArray[np.bool_] = total <= bound
    return under


def satisfies(sketch: Sketch, population: Population) -> NDArray[np.bool_]:
    """Which rows are under all ceilings."""
    good = np.ones(len(population), dtype=bool)
    for ceiling in sketch.ceilings:
        good &= _under(sketch, population, ceiling.knobs, ceiling.bound)
    return good


def mutate(sketch: Sketch, population: Population, rng: np.random.Generator) -> Population:
    """Each row with one or two knobs changed: mostly to a neighbouring value, at times to any."""
    if not sketch.knobs or not len(population):
        return population
    population = population.copy()
    sizes = np.array([len(k.values) for k in sketch.knobs])
    rows = np.arange(len(population))
    for changed in (rows, rows[rng.random(len(rows)) < 0.4]):
        knob = rng.integers(len(sizes), size=len(changed))
        step = rng.choice(np.array([-2, -1, 1, 2]), size=len(changed))
        near = np.clip(population[changed, knob] + step, 0, sizes[knob] - 1)
        anywhere = rng.integers(sizes[knob])
        population[changed, knob] = np.where(rng.random(len(changed)) < 0.7, near, anywhere)
    return repair(sketch, population, rng)


def crossover(sketch: Sketch, a: Population, b: Population, rng: np.random.Generator) -> Population:
    """Uniform crossover of paired rows, repaired."""
    if not sketch.knobs or not len(a):
        return a
    return repair(sketch, np.where(rng.random(a.shape) < 0.5, a, b), rng)


def transplant(source: Sketch, row: tuple[int, ...], target: Sketch, rng: np.random.Generator) -> Population:
    """A candidate carried over to another sketch: knobs of the same name keep their (nearest) value."""
    if not target.knobs:
        return np.zeros((1, 0), dtype=np.int64)
    out = [int(rng.integers(len(k.values))) for k in target.knobs]
    for i, knob in enumerate(target.knobs):
        j = source.column.get(knob.name)
        if j is not None:
            value = source.knobs[j].values[row[j]]
            out[i] = int(np.argmin(np.abs(np.asarray(knob.values) - value)))
    return repair(target, np.array([out]), rng)


def neighbours(sketch: Sketch, row: tuple[int, ...]) -> Population:
    """All candidates that differ in one knob by one or two steps, and those where one knob goes up as
    another goes down; under the ceilings."""
    base = np.asarray(row, dtype=np.int64)
    count = len(base)
    moves = [np.zeros((0, count), dtype=np.int64)]
    unit = np.eye(count, dtype=np.int64)
    for step in (-2, -1, 1, 2):
        moves.append(step * unit)
    up, down = np.nonzero(~np.eye(count, dtype=bool))
    moves.append(unit[up] - unit[down])
    rows = base + np.concatenate(moves)
    sizes = np.array([len(k.values) for k in sketch.knobs], dtype=np.int64)
    rows = rows[((rows >= 0) & (rows < sizes)).all(axis=1)]
    return rows[satisfies(sketch, rows)]
