"""Lines of the logs of TVM's auto-schedulers, Ansor and MetaSchedule, as observations.

What can be told apart is a matrix product: Ansor by the name of the task's function and the extents of its
splits, MetaSchedule by the shapes of the arguments and the name of the only block. Everything else is refused
with a reason; so are failures, which say nothing of another compiler's code.
"""

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tunesmith.records import utc_now
from tunesmith.tuning.observations import Machine, Observation, Tiles, Unmapped

__all__ = ["format_of", "observation"]

_PRODUCTS = {"matmul", "matmul_auto_scheduler_test", "mm", "gemm", "ansor_mm"}
_DENSE = {"dense", "dense_layer"}
_BLOCKS = {
    "matmul": "matmul", "C": "matmul", "T_matmul_NN": "matmul", "matmul_NN": "matmul",
    "dense": "dense", "T_dense": "dense", "T_matmul_NT": "dense", "NT_matmul": "dense",
}  # fmt: skip
_DTYPES = {"float32": "f32", "float64": "f64"}
_SSRSRS = [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]
_VECTORIZE = 2  # of Ansor's annotations
_FAILED_S = 1e9  # what stands for the time of a failure
_UNDATED = dt.datetime(2020, 1, 1, 0, 0, 1, tzinfo=dt.UTC)


def format_of(document: Any) -> str | None:
    """``ansor``, ``metaschedule``, or None for what is no line of such a log."""
    if isinstance(document, dict) and {"i", "r"} <= set(document):
        return "ansor"
    if isinstance(document, list) and len(document) == 2 and isinstance(document[1], list | str):
        return "metaschedule"
    return None


def observation(document: Any) -> Observation:
    """Of a line that ``format_of`` knows. Raises ``Unmapped``."""
    try:
        return _ansor(document) if isinstance(document, dict) else _metaschedule(document)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as fault:
        raise Unmapped("not in the form of the log") from fault


def _product(kind: str, m: int, n: int, k: int, dtype: str) -> str:
    if dtype not in _DTYPES:
        raise Unmapped("of a type that there is no kernel for")
    more = ", bias=False, const=False" if kind == "dense" else ""
    return f"{kind}({m}, {n}, {k}, dtype='{_DTYPES[dtype]}'{more})"


def _times(costs: Sequence[Any]) -> tuple[float, ...]:
    times = tuple(float(c) for c in costs)
    if not times or not all(0 < t < _FAILED_S for t in times):
        raise Unmapped("failed there")
    return times


# -- Ansor --------------------------------------------------------------------------------------------------


def _ansor(line: Mapping[str, Any]) -> Observation:
    (task, (_, steps)), (costs, error, _, stamp) = line["i"], line["r"]
    if error:
        raise Unmapped("failed there")
    kind, numbers, dtype = _task(task[0])
    at = dt.datetime.fromtimestamp(int(stamp), dt.UTC)
    if not _UNDATED < at < utc_now():
        at = _UNDATED
    tiles, (m, n, k) = _tiles(steps)
    if sorted(numbers) != sorted((m, n, k)):
        raise Unmapped("splits that do not fit the task's shape")
    return Observation(
        "ansor", _product(kind, m, n, k, dtype), tiles, _ansor_machine(task), _times(costs), at,
        json.dumps([line["i"], line["r"]], sort_keys=True),
    )  # fmt: skip


def _task(key: str) -> tuple[str, list[int], str]:
    """Kind, numbers and type of a workload key: ["matmul", 512, 512, 512, "float32"]."""
    name, *values = json.loads(key)
    if re.fullmatch(r"[0-9a-f]{32}", name):
        raise Unmapped("the task is a hash, which tells no program")
    if name not in _PRODUCTS | _DENSE:
        raise Unmapped(f"the task's function {str(name)[:40]!r} is none that is known")
    numbers = [v for v in values if type(v) is int]
    types = [v for v in values if isinstance(v, str)]
    if len(numbers) != 3 or len(numbers) + len(types) != len(values) or len(types) > 1:
        raise Unmapped("a product with more than three extents and a type")
    return "dense" if name in _DENSE else "matmul", numbers, types[0] if types else "float32"


def _tiles(steps: Sequence[Sequence[Any]]) -> tuple[Tiles, tuple[int, int, int]]:
    """Of the one stage that is split in ten loops; the others are copies and fusions round it."""
    kinds = {step[0] for step in steps}
    if kinds & {"RF", "CHR", "CHW", "FSP", "FFSP", "CI"}:
        raise Unmapped("with more stages than the product, or its reduction in parts")
    splits = [step for step in steps if step[0] == "SP"]
    orders = [step for step in steps if step[0] == "RE"]
    if len(splits) != 3 or len(orders) != 1 or list(orders[0][2]) != _SSRSRS:
        raise Unmapped("tiled in other levels than SSRSRS")
    found = {step[2]: (int(step[3]), [int(v) for v in step[4]]) for step in splits}
    if list(found) != [0, 4, 8] or not all(step[5] for step in splits):
        raise Unmapped("tiled in other levels than SSRSRS")
    i, j, k = (_whole(*found[at]) for at in (0, 4, 8))
    vectors = any(step[0] == "AN" and step[3] == _VECTORIZE for step in steps)
    return Tiles(i, j, k, vectors), (found[0][0], found[4][0], found[8][0])


def _whole(extent: int, inner: list[int]) -> tuple[int, ...]:
    """Lengths from the outermost inwards; a log has those of the inner loops."""
    size = 1
    for length in inner:
        size *= length
    if size < 1 or extent % size:
        raise Unmapped("tiles that do not divide the shape")
    return (extent // size, *inner)


def _ansor_machine(task: Sequence[Any]) -> Machine:
    """The order of what follows the target differs between versions: the list of eight is the hardware."""
    text = str(task[1])
    hardware = next((p for p in task[2:] if isinstance(p, list) and len(p) == 8), None)
    cores, vector, line_bytes = hardware[:3] if hardware else (_number(text, "num-cores"), 64, 64)
    return _machine(text, text.split()[:1] == ["llvm"], _option(text, "mcpu"), cores, vector, line_bytes)


def _option(text: str, name: str) -> str:
    found = re.search(rf"-{name}=([A-Za-z0-9_.-]+)", text)
    return found[1] if found else ""


def _number(text: str, name: str) -> int:
    return int(_option(text, name) or 1)


def _machine(
    text: str, is_cpu: bool, cpu: str, cores: Any, vector: Any = 64, line_bytes: Any = 64
) -> Machine:
    if not is_cpu:
        raise Unmapped("not of a CPU")
    plain = re.sub(r"[^\x20-\x7e]", "?", text)[:200]
    if not (1 <= int(cores) <= 1024 and int(vector) in (16, 32, 64) and int(line_bytes) in (32, 64, 128)):
        raise Unmapped("of a machine with odd properties")
    return Machine(plain, cpu[:64], int(cores), int(vector), int(line_bytes))


# -- MetaSchedule -------------------------------------------------------------------------------------------


def _metaschedule(line: Sequence[Any]) -> Observation:
    if isinstance(line[1], str):
        raise Unmapped("a workload, which is no measurement")
    trace, seconds, target, arguments = line[1]
    if seconds is None:
        raise Unmapped("failed there")
    kind, (m, n, k), dtype = _arguments(arguments, trace[0])
    return Observation(
        "metaschedule", _product(kind, m, n, k, dtype), _decided(*trace), _described(target),
        _times(seconds), _UNDATED, json.dumps(line[1], sort_keys=True),
    )  # fmt: skip


def _arguments(
    arguments: Sequence[Any], instructions: Sequence[Any]
) -> tuple[str, tuple[int, int, int], str]:
    """Kind, extents and type of a product of two matrices; its only block tells how the second lies."""
    names = {inst[2][0] for inst in instructions if inst[0] in ("GetBlock", "GetSBlock")} - {"root"}
    kind = _BLOCKS.get(next(iter(names))) if len(names) == 1 else None
    if kind is None:
        raise Unmapped("its blocks are not those of a product alone")
    if len(arguments) != 3 or any(len(a[2]) != 2 for a in arguments):
        raise Unmapped("its arguments are not three matrices")
    (m, k), second, (rows, n) = (tuple(int(v) for v in a[2]) for a in arguments)
    if rows != m or second != ((k, n) if kind == "matmul" else (n, k)):
        raise Unmapped("its arguments are not those of a product")
    types = {str(a[1]) for a in arguments}
    return kind, (m, n, k), types.pop() if len(types) == 1 else "mixed"


def _decided(instructions: Sequence[Any], decisions: Sequence[Any]) -> Tiles:
    known = {int(index): decision for index, decision in decisions}
    tiles = [
        tuple(int(v) for v in known[n])
        for n, inst in enumerate(instructions)
        if inst[0] == "SamplePerfectTile"
    ]
    structures = {inst[1][1].strip("\"'") for inst in instructions if _is_structure(inst)}
    if len(tiles) != 3 or structures - {"SSRSRS"}:
        raise Unmapped("tiled in other levels than SSRSRS")
    return Tiles(tiles[0], tiles[1], tiles[2])


def _is_structure(inst: Sequence[Any]) -> bool:
    return bool(inst[0] == "Annotate" and inst[2][:1] == ["meta_schedule.tiling_structure"])


def _described(target: Any) -> Machine:
    """A target is a text, or an object of its properties."""
    if isinstance(target, str) and target.startswith("{"):
        target = json.loads(target)
    if isinstance(target, str):
        cores = _number(target, "num-cores")
        return _machine(target, target.split()[:1] == ["llvm"], _option(target, "mcpu"), cores)
    cores = target.get("num-cores", 1)
    text = f"{target['kind']} -mcpu={target.get('mcpu', '')} -num-cores={cores}"
    return _machine(text, target["kind"] == "llvm", str(target.get("mcpu", "")), cores)
