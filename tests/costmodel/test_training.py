"""Pretrained models: what they learn, their files, and rankers on top of them."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tunesmith.costmodel import (
    NAMES,
    VERSION,
    Model,
    ModelError,
    Objective,
    Ranker,
    Recipe,
    Samples,
    features,
    find_model,
    load_model,
    save_model,
)
from tunesmith.costmodel import model as model_module
from tunesmith.costmodel.training import evaluate, evaluate_prior, held_out, train
from tunesmith.frontend import operator
from tunesmith.ir import canonical
from tunesmith.records import Peaks, Target
from tunesmith.search import derive
from tunesmith.search.population import sample
from tunesmith.search.ports import seconds_of

TARGET = Target(
    "x86_64-linux-gnu", "znver3", "+avx2,+fma", "test", 2, 1, 1 << 15, 1 << 19, 1 << 25, 64, 32, 16,
    Peaks(100.0, 50.0, 200.0, 100.0, 60.0, 20.0),
)  # fmt: skip
QUICK = Recipe(rounds=30, least_weight=2.0)


def made_up(number: int, count: int = 40) -> Samples:
    """A task in which the prior misses the effect of two features, and all its times by a factor."""
    rng = np.random.default_rng(number)
    matrix = rng.standard_normal((count, len(NAMES))).astype(np.float32)
    prior_s = 1e-4 * np.exp(0.3 * rng.standard_normal(count))
    missed = 0.8 * matrix[:, 3] - 0.5 * (matrix[:, 5] > 0)
    factor = float(np.exp(rng.normal(0.2, 1.0)))
    family = ("a", "b", "c")[number % 3]
    return Samples(f"w{number}", family, matrix, prior_s, factor * prior_s * np.exp(missed))


TASKS = [made_up(n) for n in range(18)]


@pytest.fixture(scope="module")
def trained() -> Model:
    return train(TASKS[:12], QUICK)


@pytest.mark.parametrize("objective", Objective)
def test_what_the_prior_misses_is_learnt_for_new_tasks(objective: Objective) -> None:
    model = train(TASKS[:12], Recipe(rounds=60, least_weight=2.0, objective=objective))
    before, after = evaluate_prior(TASKS[12:]), evaluate(model, TASKS[12:])
    assert after.pairwise > before.pairwise + 0.15
    assert after.top5 >= before.top5
    assert 0.3 < after.calibration.bias < 3


def test_factors_of_whole_tasks_teach_nothing(trained: Model) -> None:
    """Only order within a task counts: the same trees come when a task is ten times slower."""
    slower = [Samples(t.workload, t.family, t.matrix, t.prior_s, 10 * t.seconds) for t in TASKS[:12]]
    other = train(slower, QUICK)
    matrix = TASKS[12].matrix
    difference = other.residual(matrix) - trained.residual(matrix)
    np.testing.assert_allclose(difference, np.log(10), atol=1e-4)


def test_training_is_deterministic(trained: Model, tmp_path: Path) -> None:
    for name, model in (("a", trained), ("b", train(TASKS[:12], QUICK))):
        save_model(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nothing_to_train_on() -> None:
    with pytest.raises(ValueError, match="nothing to train on"):
        train([], QUICK)


def test_workloads_are_held_out_whole() -> None:
    seen, unseen = held_out(TASKS, ["b"], 0.2, 0)
    assert {t.family for t in unseen} == {"b"} and {t.family for t in seen} == {"a", "c"}
    twice = [*TASKS, *TASKS]
    seen, unseen = held_out(twice, [], 0.25, 0)
    assert len(seen) + len(unseen) == 36 and len(unseen) == 8
    assert not {t.workload for t in seen} & {t.workload for t in unseen}


def test_a_file_gives_the_model_back(trained: Model, tmp_path: Path) -> None:
    size = save_model(trained, tmp_path / "model.zip")
    assert size == (tmp_path / "model.zip").stat().st_size < model_module.MAX_BYTES
    loaded = load_model(tmp_path / "model.zip")
    matrix = TASKS[13].matrix
    np.testing.assert_array_equal(loaded.residual(matrix), trained.residual(matrix))
    assert loaded.about["features"] == {"version": VERSION, "names": list(NAMES)}
    assert loaded.about["tasks"] == 12 and loaded.about["records"] == 480
    assert loaded.about["families"] == {"a": 4, "b": 4, "c": 4}
    assert loaded.about["recipe"]["rounds"] == 30


def rewritten(path: Path, **changes: object) -> Path:
    """The file with some facts about the model changed."""
    with zipfile.ZipFile(path) as archive:
        about, trees = json.loads(archive.read("about.json")), archive.read("trees.ubj")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", json.dumps(about | changes))
        archive.writestr("trees.ubj", trees)
    return path


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 99}, "format 99; this version reads 1"),
        ({"features": {"version": -1, "names": list(NAMES)}}, "features of version -1; here they are of"),
        ({"features": {"version": VERSION, "names": ["x"]}}, "with other features"),
        ({"features": None}, "features of version None"),
        ({"scale": None}, "no scale or offset"),
        ({"offset": "nan"}, "offset nan"),
    ],
)
def test_files_of_other_versions_are_refused(
    trained: Model, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    save_model(trained, tmp_path / "model.zip")
    with pytest.raises(ModelError, match=reason):
        load_model(rewritten(tmp_path / "model.zip", **changes))


def test_broken_files_are_refused(trained: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    save_model(trained, path)
    whole = path.read_bytes()
    for broken in (b"", b"PK", whole[:-40], whole[:200] + b"\0" * 64 + whole[264:]):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match="cannot be read as a model"):
            load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", json.dumps({"format": 1}))
    with pytest.raises(ModelError, match=r"trees\.ubj"):
        load_model(path)


def test_trees_that_are_none(trained: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    save_model(trained, path)
    with zipfile.ZipFile(path) as archive:
        about = archive.read("about.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", about)
        archive.writestr("trees.ubj", b"{}")
    with pytest.raises(ModelError, match="is broken"):
        load_model(path)


def test_a_model_that_is_not_there_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = find_model(tmp_path / "none.zip")
    assert named.model is None and not named.expected and "there is no model" in named.reason
    monkeypatch.setattr(model_module, "SHIPPED", tmp_path / "none.zip")
    shipped = find_model()
    assert shipped.model is None and shipped.expected and "no pretrained model" in shipped.reason


def test_a_file_in_the_place_of_the_shipped_one_is_used(
    trained: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(trained, tmp_path / "pretrained.zip")
    monkeypatch.setattr(model_module, "SHIPPED", tmp_path / "pretrained.zip")
    found = find_model()
    assert found.model is not None and "480 records of 12 tasks" in found.reason


def test_the_shipped_model_if_any_can_be_used() -> None:
    found = find_model()
    assert found.expected, found.reason


class Slope:
    """Trees that say one feature's value."""

    def inplace_predict(self, matrix: np.ndarray, predict_type: str) -> np.ndarray:
        return matrix[:, 0]


def test_the_ranker_starts_from_the_pretrained_model_and_learns_on_top() -> None:
    program = canonical(operator("matmul(64,64,64)"))
    sketches = derive(program, TARGET).sketches
    rows = sample(sketches[0], 120, np.random.default_rng(0))
    found = features(program, sketches[0], rows, TARGET)
    base = Model(Slope(), scale=0.5, offset=0.1)
    ranker = Ranker(program, sketches, TARGET, pretrained=base)
    expected = found.prior_s * np.exp(0.1 + 0.5 * found.matrix[:, 0])
    np.testing.assert_allclose(seconds_of(ranker, 0, rows), expected, rtol=1e-5)
    column = sketches[0].column["t0.vectors"]
    truth = expected * np.where(rows[:, column] > 0, 4.0, 1.0)
    ranker.observe([(0, tuple(map(int, r)), float(t)) for r, t in zip(rows[:80], truth[:80], strict=True)])
    error = np.log(seconds_of(ranker, 0, rows[80:]) / truth[80:])
    assert np.abs(error).mean() < 0.35
