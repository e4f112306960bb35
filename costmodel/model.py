"""Pretrained models: trees that correct the prior on programs that were never measured, and their file.

    FILE = a zip archive of ``about.json`` (what the model is, and what it was trained on) and ``trees.ubj``
           (XGBoost's binary JSON)

A model is used only with the very features that it was trained with. A file that cannot be used is passed
over with a reason, and the prior alone ranks.
"""

import io
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tunesmith.costmodel.features import NAMES, VERSION
from tunesmith.ir.errors import TunesmithError

__all__ = [
    "MAX_BYTES",
    "SHIPPED",
    "Found",
    "Model",
    "ModelError",
    "contributions",
    "find_model",
    "load_model",
    "save_model",
]

SHIPPED = Path(__file__).parent / "models" / "pretrained.zip"
MAX_BYTES = 1 << 20  # of a model's file
_FORMAT = 1
_ABOUT, _TREES = "about.json", "trees.ubj"
_MOST_UNPACKED = 64 << 20
_UNREADABLE = (  # what zipfile raises for files that are none, cut off, altered, encrypted
    OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


class ModelError(TunesmithError):
    """A model file cannot be used; the message says why."""


@dataclass(frozen=True)
class Model:
    """log(seconds / prior) of candidates: ``offset`` + ``scale`` * what the trees say.

    ``about``: package version, recipe, numbers of tasks and records, families and those held out, date, and
    what the evaluation gave.
    """

    trees: Any
    scale: float = 1.0
    offset: float = 0.0
    about: dict[str, Any] = field(default_factory=dict)

    def residual(self, matrix: NDArray[np.float32]) -> NDArray[np.float64]:
        """One value a row of features."""
        if not len(matrix):
            return np.zeros(0)
        raw = self.trees.inplace_predict(matrix, predict_type="margin")
        return self.offset + self.scale * np.asarray(raw, dtype=np.float64)

    def contributions(self, matrix: NDArray[np.float32]) -> NDArray[np.float64]:
        """The residual of each row split by features (SHAP values); the last column is what rows share."""
        parts = self.scale * contributions(self.trees, matrix)
        parts[:, -1] += self.offset
        return parts


def contributions(trees: Any, matrix: NDArray[np.float32]) -> NDArray[np.float64]:
    """What each feature adds to what trees say of each row; the last column is their mean over all rows they
    were trained on (S. Lundberg et al., Nature Machine Intelligence 2, 2020)."""
    import xgboost

    return np.asarray(trees.predict(xgboost.DMatrix(matrix), pred_contribs=True), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Found:
    """A model, or None with the reason why the prior ranks alone. ``expected``: there was nothing wrong."""

    model: Model | None
    reason: str
    expected: bool = True


def find_model(path: Path | None = None) -> Found:
    """The model in a file, or with None the one that comes with this version. Never raises."""
    if path is None and not SHIPPED.exists():
        return Found(None, "no pretrained model comes with this version; the analytic prior ranks alone")
    try:
        model = load_model(SHIPPED if path is None else path)
    except ModelError as e:
        return Found(None, f"{e}; the analytic prior ranks alone", expected=False)
    records, tasks = model.about.get("records", "?"), model.about.get("tasks", "?")
    return Found(
        model, f"trained on {records} records of {tasks} tasks, {model.about.get('date', 'undated')}"
    )


def save_model(model: Model, path: Path) -> int:
    """Write a model's file; returns its size in bytes."""
    about = {
        "format": _FORMAT,
        "features": {"version": VERSION, "names": list(NAMES)},
        "scale": model.scale,
        "offset": model.offset,
        **model.about,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(_ABOUT, _EPOCH), json.dumps(about, indent=1), zipfile.ZIP_DEFLATED)
        trees = bytes(model.trees.save_raw("ubj"))
        archive.writestr(zipfile.ZipInfo(_TREES, _EPOCH), trees, zipfile.ZIP_DEFLATED)
    path.write_bytes(buffer.getvalue())
    return len(buffer.getvalue())


def load_model(path: Path) -> Model:
    """Read a model's file. Raises ModelError for one that is missing, broken, or of other features."""
    about, trees = _unpack(path)
    if about.get("format") != _FORMAT:
        raise ModelError(f"{path} has format {about.get('format')!r}; this version reads {_FORMAT}")
    schema = about.get("features")
    if not isinstance(schema, dict) or schema.get("version") != VERSION:
        theirs = schema.get("version") if isinstance(schema, dict) else None
        raise ModelError(
            f"{path} was trained with features of version {theirs!r}; here they are of {VERSION}"
        )
    if schema.get("names") != list(NAMES):
        raise ModelError(f"{path} was trained with other features than these, of the same version {VERSION}")
    try:
        scale, offset = float(about["scale"]), float(about["offset"])
    except (KeyError, TypeError, ValueError):
        raise ModelError(f"{path} is broken: no scale or offset") from None
    if not np.isfinite([scale, offset]).all():
        raise ModelError(f"{path} is broken: scale {scale}, offset {offset}")
    return Model(_booster(path, trees), scale, offset, about)


def _unpack(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(archive.getinfo(n).file_size for n in (_ABOUT, _TREES)) > _MOST_UNPACKED:
                raise ModelError(f"{path} is larger than any model")
            about, trees = json.loads(archive.read(_ABOUT)), archive.read(_TREES)
    except FileNotFoundError:
        raise ModelError(f"there is no model {path}") from None
    except _UNREADABLE as e:
        raise ModelError(f"{path} cannot be read as a model: {e}") from None
    if not isinstance(about, dict):
        raise ModelError(f"{path} is broken: {_ABOUT} is not an object")
    return about, trees


def _booster(path: Path, trees: bytes) -> Any:
    import xgboost

    try:
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(trees))
        count = booster.num_features()
    except (xgboost.core.XGBoostError, ValueError, TypeError) as e:
        raise ModelError(f"{path} is broken: {str(e).strip().splitlines()[0]}") from None
    if count != len(NAMES):
        raise ModelError(f"{path} is broken: its trees take {count} features, not {len(NAMES)}")
    return booster
