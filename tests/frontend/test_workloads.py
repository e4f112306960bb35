"""The benchmarks' list of workloads: operators of the stated size, for every batch."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tunesmith.frontend import operator
from tunesmith.ir import canonical, flops, workload_hash

_PATH = Path(__file__).parents[2] / "benchmarks/workloads.py"
_OWN_COUNT = {"T2D": 4, "SFM": 0.8, "layer-norm": 0.534}
"""Nominal over actual counts: transposed convolutions are counted with the zeros that they do not multiply;
of softmax and layer norm the field counts passes."""


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("listed_workloads", _PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("batch", [1, 16])
def test_nominal_counts(module: ModuleType, batch: int) -> None:
    for w in module.workloads(batch):
        counted = flops(canonical(operator(w.operator)))
        assert w.flops == pytest.approx(counted * _OWN_COUNT.get(w.family, 1), rel=0.25), w.name


def test_names_and_programs_differ(module: ModuleType) -> None:
    everything = [w for batch in (1, 16) for w in module.workloads(batch)]
    assert len({w.name for w in everything}) == len(everything)
    hashes = {workload_hash(operator(w.operator)): w.name for w in everything}
    same = {w.name for w in everything} - set(hashes.values())
    assert same <= {"C2D-1", "C2D-1@16", "DIL-1", "DIL-1@16"}, "1×1 convolutions are the same dilated or not"


def test_selection(module: ModuleType) -> None:
    assert [w.name for w in module.selected(["GMM"], 16)] == [f"GMM-{n}@16" for n in range(4)]
    assert module.selected([]) == module.workloads()
