"""Programs at the edges of what can be asked: they derive, lower, build and run like any other."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tunesmith.codegen.builder import build
from tunesmith.db import Store, open_store
from tunesmith.frontend import operator
from tunesmith.ir import DType, Program, canonical, flops, parse
from tunesmith.measure import RunTask, detect_target, fastest_possible_s
from tunesmith.measure.runner import patience_s
from tunesmith.records import Protocol, Status
from tunesmith.search import derive
from tunesmith.search.default import default_schedule
from tunesmith.search.population import sample
from tunesmith.tuning import TuneOptions
from tunesmith.tuning.tuner import tune

QUICK = Protocol(samples=3, sample_s=0.0005, warmup_s=0.0)
STAGES = "\n".join(f"    y{n} = relu(y{n - 1} * 0.5 + x)" for n in range(1, 100))
LAYERS = "\n".join(f"    y{n} = tanh(y{n - 1} @ w)" for n in range(1, 34))
TEXTS = {
    "no reuse": "def f(a: f32[7, 33], b: f32[7, 33]):\n    return a * b - 1\n",
    "scalar result": "def f(x: f32[17, 5]):\n    y = sum(x[i, j] * x[i, j], (i, j))\n    return y\n",
    "scalar from a vector": "def f(x: f32[40000]):\n    y = max(x[i], i)\n    return y\n",
    "two scalars": "def f(x: f32[19]):\n    y = sum(x[i], i)\n    z = min(x[i], i)\n    return y, z * y\n",
    "one element": "def f(x: f32[1], w: f32[1]):\n    return relu(x * w)\n",
    "extents of 1": "def f(x: f32[1, 9, 1, 4], w: const[f32[1, 1, 4, 6]]):\n"
    "    y[n, h, v, o] = sum(x[n, h + r, v + s, c] * w[r, s, c, o], (r, s, c))\n    return relu(y)\n",
    "product of one row": "def f(x: f32[1, 31], w: f32[31, 1]):\n    return x @ w\n",
    "outer product": "def f(x: f64[13, 1], w: f64[1, 29]):\n    return x @ w\n",
    "a constant": "def f(x: f32[5]):\n    y[i] = x[i] * 0 + 3\n    return y\n",
    "a hundred stages": f"def f(x: f32[6, 16]):\n    y0 = x + 1\n{STAGES}\n    return y99\n",
    "a hundred stages, of products": f"def f(x: f32[4, 8], w: f32[8, 8]):\n    y0 = x @ w\n{LAYERS}\n"
    "    return y33\n",
}
HUGE = "matmul(8192, 8192, 14336)"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/tuning.db") as opened:
        yield opened


@pytest.mark.parametrize("name", TEXTS)
def test_a_few_trials(name: str, store: Store) -> None:
    """Every trial is compared with the reference by the runner."""
    result = tune(parse(TEXTS[name]), TuneOptions(trials=4, protocol=QUICK), store)
    assert result.best is not None
    assert set(result.statuses) == {Status.OK} and not result.disabled_rules


@pytest.fixture(scope="module")
def huge() -> Program:
    return canonical(operator(HUGE))


def test_a_product_of_terabytes_of_reads_builds(huge: Program) -> None:
    """Neither the space nor the code grows with the extents."""
    target = detect_target(1)
    space = derive(huge, target)
    rng = np.random.default_rng(0)
    schedules = [default_schedule(huge, target)]
    schedules += [s.decode(sample(s, 1, rng)[0]) for s in space.sketches[::4]]
    for schedule in schedules:
        assert len(build(huge, schedule, target).object_code) < 1 << 16


def test_a_trial_of_it_is_given_the_minutes_it_takes(huge: Program) -> None:
    """Patience grows with what is possible at best; nothing is allocated before a worker is asked."""
    target = detect_target(1)
    fastest = fastest_possible_s(flops(huge), DType.F32, target.peaks, 1)
    task = RunTask({}, fastest_s=fastest)
    assert patience_s(task) > 30 * fastest
    assert patience_s(RunTask({}, fastest_s=1e-4)) < 1
