"""The Python face as a user meets it: tune, load, the decorator, and calls with good and bad arrays."""

# The functions below are programs, not Python: what they name is not defined here.
# ruff: noqa: F821

from __future__ import annotations

import dataclasses
import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunesmith
from tunesmith.db import open_store
from tunesmith.ir import TunesmithError


@tunesmith.kernel
def layer(x: f32[5, 19], w: const[f32[13, 19]], b: const[f32[13]]):  # type: ignore[no-untyped-def, valid-type]
    y[i, o] = sum(x[i, k] * w[o, k], k)
    return relu(y[i, o] + b[o])


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('api') / 'api.db'}"


@pytest.fixture(scope="module")
def result(db: str) -> tunesmith.TuneResult:
    return tunesmith.tune(layer, trials=3, seed=5, db=db)


@pytest.fixture(scope="module")
def kernel(db: str, result: tunesmith.TuneResult) -> tunesmith.Kernel:
    return tunesmith.load(layer, db=db)


def arrays(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(t.shape, dtype=np.float32) for t in layer.program.inputs]


def expected(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(x.astype(np.float64) @ w.T + b, 0)


def test_tune_takes_what_the_readme_says(result: tunesmith.TuneResult) -> None:
    assert result.trials == 3
    assert result.best is not None and result.best.seed == 5
    assert result.peak_fraction is not None


def test_a_kernel_says_which_record_it_came_from(kernel, db: str) -> None:
    with open_store(db) as store:
        best = store.best(kernel.record.workload.hash, kernel.record.target)
    assert best is not None and kernel.record.id == best.record.id
    np.testing.assert_allclose(kernel(*arrays()), expected(*arrays()), rtol=1e-4, atol=1e-4)


def test_load_with_nothing_known_is_a_guess(tmp_path: Path) -> None:
    guess = tunesmith.load(layer, db=tmp_path / "none.db")
    assert guess.record is None
    np.testing.assert_allclose(guess(*arrays()), expected(*arrays()), rtol=1e-4, atol=1e-4)


def test_a_record_that_cannot_be_rebuilt_is_passed_over(kernel, tmp_path: Path) -> None:
    """Such as one written by a version with other steps."""
    foreign = dataclasses.replace(kernel.record, schedule={"version": 999, "steps": []})
    with open_store(tmp_path / "foreign.db") as store:
        store.add_workload(foreign.workload)
        store.add_target(foreign.target)
        store.add(foreign)
    guess = tunesmith.load(layer, db=tmp_path / "foreign.db")
    assert guess.record is None
    np.testing.assert_allclose(guess(*arrays()), expected(*arrays()), rtol=1e-4, atol=1e-4)


def test_an_empty_tunesmith_db_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUNESMITH_DB", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert tunesmith.load(layer).record is None


@pytest.mark.parametrize(
    "options",
    [{"trials": 0}, {"trials": -1}, {"trials": 2.5}, {"seconds": 0}, {"seconds": float("nan")},
     {"threads": 0}, {"seed": -1}, {"seed": 1 << 63}],
)  # fmt: skip
def test_numbers_that_make_no_sense(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TunesmithError, match=next(iter(options))):
        tunesmith.tune(layer, db=tmp_path / "never.db", **options)
    assert not (tmp_path / "never.db").exists()


@pytest.mark.parametrize(
    ("position", "bad", "reason"),
    [
        (0, lambda a: a.T.copy(), r"argument 0 \(x\) .* shape \(5, 19\), got \(19, 5\)"),
        (0, lambda a: a.astype(np.float64), r"argument 0 \(x\) .* dtype float32, got float64"),
        (1, lambda a: a.astype(a.dtype.newbyteorder()), r"argument 1 \(w\) .* dtype float32, got >f4"),
        (1, np.asfortranarray, r"argument 1 \(w\) .* C-contiguous"),
        (0, lambda a: np.repeat(a, 2, axis=0)[::2], r"argument 0 \(x\) .* C-contiguous"),
        (2, lambda a: a.tolist(), r"argument 2 \(b\) .* NumPy array, got list"),
        (2, lambda a: np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype), r"argument 2 \(b\) .* aligned"),
    ],
)
def test_bad_arguments_are_named(kernel, position: int, bad: Any, reason: str) -> None:
    given: list[Any] = arrays()
    given[position] = bad(given[position])
    with pytest.raises(ValueError, match=reason):
        kernel(*given)


def test_out_is_checked_and_filled(kernel) -> None:
    given, out = arrays(), np.empty((5, 13), np.float32)
    assert kernel(*given, out=out) is out
    np.testing.assert_allclose(out, expected(*given), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=r"out of layer must have shape"):
        kernel(*given, out=out.T)
    shared = np.zeros(5 * 19 + 5 * 13, np.float32)
    x, overlapping = shared[: 5 * 19].reshape(5, 19), shared[5 * 19 - 1 :][: 5 * 13].reshape(5, 13)
    with pytest.raises(ValueError, match="overlaps x"):
        kernel(x, *given[1:], out=overlapping)


def test_several_results_into_the_same_arrays_again(tmp_path: Path) -> None:
    text = "def both(x: f32[7, 5]):\n    y[i] = sum(x[i, j], j)\n    return x + 1, y\n"
    both = tunesmith.load(text, db=f"sqlite:///{tmp_path}/t.db")
    x, out = np.ones((7, 5), np.float32), (np.empty((7, 5), np.float32), np.empty(7, np.float32))
    for value in (1, 2, 3):
        x[...] = value
        assert all(a is b for a, b in zip(both(x, out=out), out, strict=True))
        assert (out[0] == value + 1).all() and (out[1] == 5 * value).all()
    out[1].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        both(x, out=out)


def test_out_may_have_become_read_only_since_the_last_call(kernel) -> None:
    given, out = arrays(), np.empty((5, 13), np.float32)
    kernel(*given, out=out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        kernel(*given, out=out)


def test_constants_follow_the_array_that_is_passed(kernel) -> None:
    x, w, b = arrays()
    for other in (w, 2 * w, w):
        np.testing.assert_allclose(kernel(x, other, b), expected(x, other, b), rtol=1e-4, atol=1e-4)
    bound = kernel.bind(w=w, b=b)
    np.testing.assert_allclose(bound(x), expected(x, w, b), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="no constant operand 'x'; it has w, b"):
        kernel.bind(x=x)


def test_several_threads_call_one_kernel(kernel) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(40):
            given = arrays(100 * seed + i)
            if not np.allclose(kernel(*given), expected(*given), rtol=1e-4, atol=1e-4):
                wrong.append(i)
            if i % 10 == 0:
                gc.collect()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_several_results_and_rank_zero(tmp_path: Path) -> None:
    text = "def f(x: f64[6, 7]):\n    return x.sum(), x.sum(axis=0), relu(x)"
    x = np.random.default_rng(0).standard_normal((6, 7))
    total, columns, kept = tunesmith.load(text, db=tmp_path / "none.db")(x)
    assert total.shape == ()
    np.testing.assert_allclose(total, x.sum(), rtol=1e-12)
    np.testing.assert_allclose(columns, x.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(kept, np.maximum(x, 0))
