"""Recordings: spaces whose every candidate was measured, to compare strategies without a machine.

A recording holds all that a search needs and nothing that changes with the rules: the program, the target,
the sketches with their knobs, and for each candidate its seconds (none if it failed) and what measuring it
took. One compressed NumPy file each, under ``benchmarks/data``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tunesmith.schedule
from tunesmith.ir import Program, program_from_json, program_to_json
from tunesmith.records import Target
from tunesmith.schedule import Ceiling, Hole, Knob, Part, Sketch, Step, Tail
from tunesmith.search import Candidate, Space

__all__ = ["DATA", "Recording"]

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Recording:
    """``sketch`` (n,) and ``rows`` (n, most knobs; 0 beyond a sketch's own) name the candidates; ``seconds``
    (n,) is NaN for those that failed; ``cost_s`` (n,): wall seconds of building and of running, (n, 2)."""

    name: str
    program: Program
    target: Target
    sketches: tuple[Sketch, ...]
    sketch: NDArray[np.uint8]
    rows: NDArray[np.uint8]
    seconds: NDArray[np.float32]
    cost_s: NDArray[np.float16]

    @property
    def space(self) -> Space:
        return Space(self.program, self.sketches)

    @property
    def best_s(self) -> float:
        return float(np.nanmin(self.seconds))

    def fastest(self) -> float | None:
        """Seconds of the best candidate; None while nothing is measured."""
        return None if np.isnan(self.seconds).all() else self.best_s

    @cached_property
    def _at(self) -> dict[Candidate, int]:
        return {c: i for i, c in enumerate(self.candidates())}

    def candidates(self) -> Iterator[Candidate]:
        counts = [len(s.knobs) for s in self.sketches]
        for sketch, row in zip(self.sketch.tolist(), self.rows.tolist(), strict=True):
            yield Candidate(sketch, tuple(row[: counts[sketch]]))

    def outcome(self, candidate: Candidate) -> tuple[float | None, float, float]:
        """Seconds a call (None: it fails), seconds to build it and seconds to run it."""
        i = self._at[candidate]
        seconds = float(self.seconds[i])
        build_s, run_s = map(float, self.cost_s[i])
        return (None if np.isnan(seconds) else seconds), build_s, run_s

    def save(self) -> Path:
        DATA.mkdir(exist_ok=True)
        path = DATA / f"{self.name}.npz"
        np.savez_compressed(
            path, about=np.array(json.dumps(self.to_json())), sketch=self.sketch, rows=self.rows,
            seconds=self.seconds, cost_s=self.cost_s,
        )  # fmt: skip
        return path

    def to_json(self) -> dict[str, Any]:
        """All but the measurements."""
        return {
            "name": self.name,
            "program": program_to_json(self.program),
            "target": self.target.to_json(),
            "sketches": [_sketch_to_json(s) for s in self.sketches],
        }

    @staticmethod
    def load(name: str) -> "Recording":
        with np.load(DATA / f"{name}.npz") as data:
            about = json.loads(str(data["about"]))
            return Recording(
                about["name"], program_from_json(about["program"]), Target.from_json(about["target"]),
                tuple(_sketch_from_json(s) for s in about["sketches"]),
                data["sketch"], data["rows"], data["seconds"], data["cost_s"],
            )  # fmt: skip


def _sketch_to_json(sketch: Sketch) -> dict[str, Any]:
    return {
        "name": sketch.name,
        "steps": [[type(s).__name__, *(_plain(getattr(s, f.name)) for f in fields(s))] for s in sketch.steps],
        "knobs": [[k.name, list(k.values)] for k in sketch.knobs],
        "ceilings": [[list(c.knobs), c.bound] for c in sketch.ceilings],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Hole):
        return {"knob": value.knob}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _sketch_from_json(data: dict[str, Any]) -> Sketch:
    return Sketch(
        data["name"],
        tuple(_step(kind, values) for kind, *values in data["steps"]),
        tuple(Knob(name, tuple(values)) for name, values in data["knobs"]),
        tuple(Ceiling(tuple(knobs), bound) for knobs, bound in data["ceilings"]),
    )


def _step(kind: str, values: list[Any]) -> Step:
    make = getattr(tunesmith.schedule, kind)
    names = [f.name for f in fields(make)]
    step: Step = make(**{n: _value(n, v) for n, v in zip(names, values, strict=True)})
    return step


def _value(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return Hole(value["knob"])
    if isinstance(value, list):
        return tuple(_value("", v) for v in value)
    return Tail(value) if name == "tail" else Part(value) if name == "part" else value
