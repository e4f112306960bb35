"""Drafts: sketches under construction."""

from dataclasses import dataclass, replace

from tunesmith.ir.program import Program, Stage
from tunesmith.schedule import Ceiling, ComputeAt, Hole, Knob, Sketch, State, Step
from tunesmith.schedule.state import apply

__all__ = ["Draft"]


@dataclass(frozen=True)
class Draft:
    """Steps so far with the state they lead to. ``done`` names stages that need no further rule.

    ``batch``: the (stage, loop) inside which everything is computed, one slice after another; None: stage
    after stage.
    """

    state: State
    name: str = ""
    steps: tuple[Step, ...] = ()
    knobs: tuple[Knob, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    done: frozenset[str] = frozenset()
    batch: tuple[str, str] | None = None

    @property
    def program(self) -> Program:
        return self.state.program

    def stage(self, name: str) -> Stage:
        return self.state.program.stage(name)

    def do(self, *steps: Step) -> "Draft":
        """Apply steps. Raises IllegalStep."""
        state = self.state
        for step in steps:
            state = apply(state, step)
        return replace(self, state=state, steps=(*self.steps, *steps))

    def hole(self, name: str, values: tuple[int, ...]) -> "tuple[Draft, Hole]":
        """Add a knob; the hole stands for its value in steps."""
        return replace(self, knobs=(*self.knobs, Knob(name, values))), Hole(name)

    def cap(self, knobs: tuple[str, ...], bound: int) -> "Draft":
        return replace(self, ceilings=(*self.ceilings, Ceiling(knobs, bound)))

    def slice(self, stage: str) -> "Draft":
        """The stage computed inside the batch, if there is one and it is not somewhere else already."""
        at_root = stage in self.state.plans and self.state.plans[stage].at is None
        if self.batch is None or stage == self.batch[0] or not at_root:
            return self
        return self.do(ComputeAt(stage, *self.batch))

    def finish(self, *stages: str, label: str = "") -> "Draft":
        name = f"{self.name} {label}".strip() if label else self.name
        return replace(self, done=self.done | set(stages), name=name)

    def sketch(self) -> Sketch:
        return Sketch(self.name or "plain", self.steps, self.knobs, self.ceilings)
