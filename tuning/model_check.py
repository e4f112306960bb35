"""Models from strangers: read once in a child process with limits, and taken only if that went well.

The child is this module: ``python -m tunesmith.tuning.model_check PARENT FILE`` prints what it found as JSON.
"""

import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunesmith.costmodel.model import MAX_BYTES, ModelError
from tunesmith.measure.confine import confine
from tunesmith.measure.guard import die_with_parent
from tunesmith.tuning.child import ask_child, limit_child

__all__ = ["ModelFacts", "check_model"]

_CPU_S = 20
_PATIENCE_S = 60.0
_ZIP = b"PK\x03\x04"
_MOST_ABOUT = 1 << 16  # characters


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """``about`` is what the file says of itself, ``feature_schema`` the version of the features."""

    feature_schema: int
    n_records: int
    about: dict[str, Any]


def check_model(data: bytes) -> ModelFacts:
    """Raises ``ModelError`` for bytes that are no model of this version's features."""
    if len(data) > MAX_BYTES:
        raise ModelError(f"a model has at most {MAX_BYTES} bytes, this one {len(data)}")
    if not data.startswith(_ZIP):
        raise ModelError("the file cannot be read as a model: it is no zip archive")
    with tempfile.TemporaryDirectory(prefix="tunesmith-") as folder:
        path = Path(folder) / "model"
        path.write_bytes(data)
        return _facts(_asked(path))


def _asked(path: Path) -> str:
    try:
        done = ask_child("tunesmith.tuning.model_check", str(path), patience_s=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise ModelError("the file takes too long to read as a model") from None
    if done.returncode != 0:
        raise ModelError("the file cannot be read as a model: its reader died of it")
    return done.stdout.decode(errors="replace")


def _facts(text: str) -> ModelFacts:
    try:
        found = json.loads(text[: 2 * _MOST_ABOUT])
        if "error" in found:
            raise ModelError(str(found["error"])[:1000])
        return ModelFacts(int(found["feature_schema"]), int(found["n_records"]), dict(found["about"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ModelError("the file says of itself what cannot be understood") from None


def _look_at(parent: int, path: Path) -> dict[str, Any]:
    """In the child: everything that is given up is given up for good."""
    die_with_parent(parent)
    import numpy as np

    from tunesmith.costmodel.features import NAMES, VERSION
    from tunesmith.costmodel.model import find_model, load_model

    find_model()  # one that can be trusted, so that the library is loaded before anything is forbidden
    limit_child(_CPU_S)
    confine()
    try:
        model = load_model(path)
        values = model.residual(np.zeros((1, len(NAMES)), np.float32))
    except ModelError as e:
        return {"error": str(e).replace(str(path), "the file")}
    if not math.isfinite(values[0]):
        return {"error": "the model predicts no finite time"}
    records = model.about.get("records", 0)
    return {
        "feature_schema": VERSION,
        "n_records": records if isinstance(records, int) and 0 <= records < 1 << 31 else 0,
        "about": {k: v for k, v in model.about.items() if k not in ("features", "format")},
    }


def _main() -> None:
    text = json.dumps(_look_at(int(sys.argv[1]), Path(sys.argv[2])))
    if len(text) > _MOST_ABOUT:
        text = json.dumps({"error": "the file says too much of itself"})
    sys.stdout.write(text)


if __name__ == "__main__":
    _main()
