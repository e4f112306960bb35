"""Where code is being emitted: the variables, loops, lanes and buffers of one function."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tunesmith.codegen.text import Function, Text, Value
from tunesmith.ir.affine import Affine, Range, interval
from tunesmith.ir.loopnest import Buffer, Role

__all__ = ["Context", "Lane", "Level", "Slot", "alignment"]


@dataclass
class Level:
    """A loop body: where hoisted instructions go, and what has been hoisted there."""

    head: Text
    memo: dict[object, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a buffer is: its pointer, layout and whether this function writes it."""

    buffer: Buffer
    pointer: str
    align: int
    written: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """The vectorized loop around the code: its variable and extent."""

    var: str
    lanes: int


def alignment(b: Buffer) -> int:
    """Bytes that the start of a buffer is aligned to."""
    return 64 if b.role in (Role.PACKED, Role.TEMP, Role.LOCAL) else b.dtype.size_bytes


class Context:
    """``vars`` maps loop variables to SSA names, or to ints while their loop is unrolled; ``depth`` to the
    level (index into ``levels``) at which they get their value, ``ranges`` to the values they can take.
    ``mask`` is a vector of i1, None when every lane is on; there is none without a ``lane``. ``guarding``: it
    comes from a guard within an expression, not from the tail of the vectorized loop alone. ``loaded`` holds
    what was read from buffers that are written too: a table a block, by pointer.
    """

    def __init__(self, slots: Mapping[str, Slot], features: frozenset[str] = frozenset()) -> None:
        self.f = Function(features)
        self.entry: Text = []
        self.slots = dict(slots)
        self.vars: dict[str, str | int] = {}
        self.depth: dict[str, int] = {}
        self.ranges: dict[str, Range] = {}
        self.levels = [Level(self.entry)]
        self.lane: Lane | None = None
        self.mask: str | None = None
        self.guarding = False
        self.loaded: list[dict[str, dict[object, Value]]] = [{}]

    # -- where ------------------------------------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[None]:
        """Values computed inside are not known outside; what was read before may be overwritten inside."""
        self.f.memo.append({})
        self.loaded.append({})
        yield
        self.loaded.pop()
        self.f.memo.pop()
        self.loaded[-1].clear()

    @contextmanager
    def variable(self, name: str, value: str, reach: Range) -> Iterator[None]:
        """A block in which a variable has a value: what depends on it is hoisted to here, not above."""
        hoisted: Text = []
        self.f.out.append(hoisted)
        self.levels.append(Level(hoisted))
        self.vars[name], self.depth[name], self.ranges[name] = value, len(self.levels) - 1, reach
        with self.block():
            yield
        self.levels.pop()
        del self.vars[name]

    @contextmanager
    def lanes(self, lane: Lane | None, mask: str | None, guarding: bool = False) -> Iterator[None]:
        """Code for these lanes, under this mask."""
        outer = self.lane, self.mask, self.guarding
        self.lane, self.mask, self.guarding = lane, mask, guarding
        yield
        self.lane, self.mask, self.guarding = outer

    @contextmanager
    def hoisting(self, level: Level) -> Iterator[None]:
        """Instructions go to the head of a level."""
        here, self.f.out = self.f.out, level.head
        yield
        self.f.out = here

    def level_of(self, form: Affine) -> Level:
        """The innermost loop that the form depends on, the lane apart."""
        lane = self.lane.var if self.lane else None
        return self.levels[max((self.depth[n] for n in form.names if n != lane), default=0)]

    # -- integers ---------------------------------------------------------------------------------------

    def resolved(self, form: Affine) -> Affine:
        """The form with the variables of unrolled loops replaced by their values."""
        terms, const = [], form.const
        for name, c in form.terms:
            value = self.vars.get(name)
            if isinstance(value, int):
                const += c * value
            else:
                terms.append((name, c))
        return Affine(tuple(terms), const)

    def reach(self, form: Affine) -> Range:
        """Bounds of a resolved form over all that the variables, the lane among them, can be."""
        if self.lane is None:
            return interval(form, self.ranges)
        return interval(form, {**self.ranges, self.lane.var: (0, self.lane.lanes - 1)})

    def depends_on_lane(self, form: Affine) -> bool:
        return self.lane is not None and form.coefficient(self.lane.var) != 0

    def integer(self, form: Affine) -> str:
        """An affine form as an i64, with the lane variable left out."""
        total = ""
        for name, c in form.terms:
            if self.lane is not None and name == self.lane.var:
                continue
            known = self.vars[name]
            value = str(known) if c == 1 else self.f.emit(f"mul nsw i64 {known}, {c}")
            total = self.f.emit(f"add nsw i64 {total}, {value}") if total else value
        if not total:
            return str(form.const)
        return self.f.emit(f"add nsw i64 {total}, {form.const}") if form.const else total

    def minimum(self, a: str, b: str) -> str:
        return self.f.emit(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def maximum(self, a: str, b: str) -> str:
        return self.f.emit(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")
