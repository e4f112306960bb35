"""Reductions in slices for threads: every sketch of small and odd programs, with two threads and three."""

import zlib
from contextlib import suppress

import numpy as np
import pytest
from check_results import check_compiled, check_interpreted, target

from tunesmith.ir import LoopNest, Program, canonical, parse
from tunesmith.schedule import IllegalStep, Sketch, lower
from tunesmith.search.population import sample
from tunesmith.search.rules import Slices
from tunesmith.search.rules.base import thinned
from tunesmith.search.space import derive

EAGER = Slices(least_points=1, least_terms=1)
"""Slices programs that are much too small for it to pay."""
MOST_SKETCHES = 6  # of a program

PROGRAMS = {
    "one value": "def f(x: f32[131]):\n    y = sum(x[i], i)\n    return y\n",
    "one value of f64": "def f(x: f64[67]):\n    y = sum(x[i], i)\n    return y\n",
    "largest": "def f(x: f32[97]):\n    y = max(x[i], i)\n    return y\n",
    "product": "def f(x: f64[1, 13]):\n    y[i] = prod(x[i, k], k)\n    return y\n",
    "dot product": "def f(a: f32[101], b: f32[101]):\n    y = sum(a[i] * b[i], i)\n    return y\n",
    "everything": "def f(x: f32[7, 23]):\n    return mean((x - mean(x)) * (x - mean(x)))\n",
    "columns": "def f(x: f32[71, 19]):\n    y[j] = sum(x[i, j], i)\n    return y\n",
    "few columns of f64": "def f(x: f64[53, 3]):\n    y[j] = min(x[i, j], i)\n    return y\n",
    "one row": "def f(a: f32[1, 89], x: f32[89]):\n    y[i] = sum(a[i, k] * x[k], k)\n    return y\n",
    "three rows": "def f(a: f32[3, 89], x: f32[89]):\n    y[i] = sum(a[i, k] * x[k], k)\n    return y\n",
    "few rows times few columns": "def f(a: f32[4, 103], b: f32[103, 17]):\n    return relu(a @ b + 1)\n",
    "operands the other way": "def f(a: f64[59, 3], b: f64[11, 59]):\n    return a.T @ b.T\n",
    "softmax of a row": "def f(x: f32[1, 127]):\n    return softmax(x)\n",
    "norms of five rows": "def f(x: f32[5, 41]):\n    return layer_norm(x)\n",
    "a window": "def f(x: f32[61, 3], w: f32[3, 3]):\n    p = pad(x, ((2, 0), (0, 0)))\n"
    "    y[r, c] = sum(p[h + r, c] * x[h, c], h)\n    return y * w\n",
}


def program(name: str) -> Program:
    return canonical(parse(PROGRAMS[name]))


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_candidates_in_slices(name: str, threads: int) -> None:
    p, machine = program(name), target(threads)
    space = derive(p, machine, slices=EAGER)
    sliced = [s for s in space.sketches if "slices" in s.name]
    assert sliced and not space.disabled
    rng = np.random.default_rng(zlib.crc32(f"{name} {threads}".encode()))
    chosen = thinned(sliced, MOST_SKETCHES)
    nests = [nest for sketch in chosen for nest in _lowered(p, sketch, rng)[:1]]
    assert len(nests) == len(chosen)
    for nest in nests:
        check_interpreted(p, nest)
        together, alone = (check_compiled(p, nest, m) for m in (machine, target(1)))
        for result in together:
            np.testing.assert_array_equal(together[result], alone[result], "the order is the same")


def _lowered(p: Program, sketch: Sketch, rng: np.random.Generator) -> list[LoopNest]:
    """Some candidates of a sketch, those that are legal."""
    out = []
    for row in sample(sketch, 4, rng):
        with suppress(IllegalStep):
            out.append(lower(p, sketch.decode(row)))
    return out
