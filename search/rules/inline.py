"""Elementwise stages that are cheaper to recompute than to store."""

from dataclasses import dataclass

from tunesmith.ir.expr import Load, walk
from tunesmith.ir.program import Stage
from tunesmith.schedule import Inline
from tunesmith.search.analysis import has_reuse, is_expensive, is_guarded
from tunesmith.search.draft import Draft
from tunesmith.search.rules.base import Hardware

__all__ = ["AlwaysInline"]


@dataclass(frozen=True)
class AlwaysInline:
    """An elementwise stage goes into its consumers' bodies: always when it only moves or cheaply combines
    data, or has one consumer; never when a consumer would evaluate it many times over or behind guards, or
    becomes larger than ``most_nodes``."""

    name: str = "inline"
    most_nodes: int = 256

    def apply(self, draft: Draft, stage: str, hardware: Hardware, most: int) -> list[Draft]:
        s = draft.stage(stage)
        if s.reducer is not None or stage in draft.program.outputs:
            return []
        consumers = draft.program.consumers(stage)
        moves = isinstance(s.body, Load)
        if not moves and any(has_reuse(c) for c in consumers):
            return []
        if is_guarded(s) and any(c.reducer is not None for c in consumers):
            return []
        if any(_nodes(c) + _nodes(s) > self.most_nodes for c in consumers):
            return []
        reads = sum(1 for c in consumers for t in c.reads if t == stage)
        if is_expensive(s) and reads > 1:
            return []
        return [draft.do(Inline(stage)).finish(stage)]


def _nodes(stage: Stage) -> int:
    return sum(1 for _ in walk(stage.body))
