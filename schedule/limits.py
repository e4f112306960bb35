"""Limits: how much code, stack and nesting a schedule may ask for, held against it while it is lowered."""

from dataclasses import dataclass, field
from math import prod

from tunesmith.ir.expr import Binary, BinaryOp, Expr, Load, Select, Unary, UnaryOp, Within, walk
from tunesmith.ir.loopnest import Buffer, LoopKind, Store, Update
from tunesmith.ir.program import Program
from tunesmith.schedule.scope import Scope
from tunesmith.schedule.steps import IllegalStep

__all__ = ["Budget", "Limits"]

_VECTOR_BYTES = 64  # wider vectors take several instructions
_PLAIN = (UnaryOp.NEG, UnaryOp.ABS, UnaryOp.SQRT)
_ELEMENTARY = 24  # instructions of an exponential and the like
_OWN_INSTRUCTIONS = 64  # for each node of the program itself, which no schedule makes go away


@dataclass(frozen=True, slots=True)
class Limits:
    """``lanes`` of a vectorized loop; ``instructions`` after unrolling, beside what the program needs in any
    case; bytes on a thread's stack; ``depth`` of loops and of stages computed inside one another; and how
    often a packed copy may hold each element of its operand.
    """

    lanes: int = 64
    instructions: int = 8_000
    stack_bytes: int = 1 << 20
    depth: int = 64
    copies: int = 64


@dataclass
class Budget:
    """What is left. Every method raises IllegalStep when the limit is passed."""

    limits: Limits
    program: Program
    code: int = 0
    stack: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = sum(1 for s in self.program.stages for _ in walk(s.body))
        self.most_code = self.limits.instructions + _OWN_INSTRUCTIONS * nodes

    def spend_code(self, scope: Scope, stmt: Store | Update) -> None:
        """A statement at a place, as often as the unrolled loops around it repeat it."""
        bounds = {n: b for n, b in scope.bounds().items() if n in scope.opened and n not in scope.fixed}
        times = prod(b.extent for b in bounds.values() if b.kind is LoopKind.UNROLL)
        lane = next(((n, b.extent) for n, b in bounds.items() if b.kind is LoopKind.VECTOR), None)
        size = self.program.stages[0].dtype.size_bytes
        self.code += times * _instructions(stmt, lane, size)
        if self.code > self.most_code:
            raise IllegalStep("unroll", f"more than {self.most_code} instructions")

    def spend_stack(self, buffer: Buffer) -> None:
        """A local buffer; buffers of one name share their place."""
        self.stack[buffer.name] = max(self.stack.get(buffer.name, 0), buffer.size_bytes)
        total = sum(self.stack.values())
        if total > self.limits.stack_bytes:
            raise IllegalStep(buffer.name, f"{total} bytes on the stack, at most {self.limits.stack_bytes}")

    def check_lanes(self, variable: str, extent: int) -> None:
        if extent > self.limits.lanes:
            raise IllegalStep(f"vectorize {variable}", f"{extent} lanes, at most {self.limits.lanes}")

    def check_depth(self, depth: int) -> None:
        if depth > self.limits.depth:
            raise IllegalStep("nesting", f"more than {self.limits.depth} loops and stages inside one another")

    def check_copy(self, buffer: Buffer, operand_bytes: int) -> None:
        most = self.limits.copies * operand_bytes + self.limits.stack_bytes
        if buffer.size_bytes > most:
            raise IllegalStep(buffer.name, f"{buffer.size_bytes} bytes to pack {operand_bytes} into")


def _instructions(stmt: Store | Update, lane: tuple[str, int] | None, element_bytes: int) -> int:
    """A rough count, meant for limits."""
    count = 1 + sum(_own(e, lane) for e in walk(stmt.value))
    if lane is None or all(i.coefficient(lane[0]) == 0 for i in stmt.index):
        return count
    return count * max(1, -(-lane[1] * element_bytes // _VECTOR_BYTES))


def _own(e: Expr, lane: tuple[str, int] | None) -> int:
    match e:
        case Load(_, index):
            strides = [i.coefficient(lane[0]) for i in index] if lane else []
            gathers = lane is not None and any(strides) and strides[-1] != 1
            return 2 * lane[1] if gathers and lane else 1
        case Unary(op, _):
            return 1 if op in _PLAIN else _ELEMENTARY
        case Binary(BinaryOp.POW, _, _):
            return 3 * _ELEMENTARY
        case Binary():
            return 1
        case Select() | Within():
            return 3
        case _:
            return 0
