"""Statements of one function: unrolled loops are expanded, the vectorized loop becomes vector values.

A parallel loop is a serial one here; its function asks for its share with ``chunk``.
"""

from collections.abc import Callable
from operator import floordiv, mod

from tunesmith.codegen.conditions import Conditions
from tunesmith.codegen.context import Context, Lane
from tunesmith.codegen.joining import is_joining, join_rows
from tunesmith.codegen.memory import Memory
from tunesmith.codegen.text import Text
from tunesmith.codegen.transpose import copy_transposed, is_transposing
from tunesmith.codegen.values import Values
from tunesmith.ir.loopnest import (
    Alloc,
    For,
    If,
    Let,
    LetOp,
    LoopKind,
    Stmt,
    Store,
    Update,
    walk_statements,
)

__all__ = ["CodeTooLarge", "Statements"]

_LET: dict[LetOp, Callable[[int, int], int]] = {LetOp.MIN: min, LetOp.DIV: floordiv, LetOp.MOD: mod}


class CodeTooLarge(Exception):
    """A function has more instructions than the limit: LLVM would take minutes."""


class Statements:
    """Raises CodeTooLarge after about ``limit`` instructions."""

    def __init__(self, context: Context, limit: int) -> None:
        self.at = context
        self.f = context.f
        self.memory = Memory(context)
        self.values = Values(context, self.memory)
        self.limit = limit
        self.streaming: bool | None = None  # None: no loop has decided yet

    def emit(self, stmts: tuple[Stmt, ...]) -> None:
        for s in stmts:
            match s:
                case For() if len(self.at.levels) == 1:
                    self._twice_if_streamed(s, self._for)
                case For():
                    self._for(s)
                case Let():
                    self._let(s)
                case If():
                    self._if(s)
                case Alloc():
                    self._alloc(s)
                case Store():
                    self._store(s)
                case Update():
                    self._update(s)

    def _count(self) -> None:
        if next(self.f.numbers) > self.limit:
            raise CodeTooLarge(f"more than {self.limit} instructions in one function")

    # -- loops --------------------------------------------------------------------------------------------

    def _for(self, s: For) -> None:
        if s.extent <= 0:
            return
        match s.kind:
            case LoopKind.UNROLL if is_transposing(s, self.at, self.memory):
                self._count()
                copy_transposed(s, self.at, self.memory)
            case LoopKind.UNROLL if is_joining(s, self.at, self.memory):
                self._count()
                join_rows(s, self.at, self.memory, self.values)
            case LoopKind.UNROLL:
                for i in range(s.extent):
                    self.at.vars[s.var] = i
                    self.emit(s.body)
            case LoopKind.VECTOR if s.extent > 1:
                with self.at.lanes(Lane(s.var, s.extent), None):
                    self.emit(s.body)
            case LoopKind.VECTOR:
                self.at.vars[s.var] = 0
                self.emit(s.body)
            case _:
                self._serial(s)

    def _serial(self, s: For) -> None:
        start, end = "0", str(s.extent)
        for form in s.starts:
            start = self.at.maximum(start, self.at.integer(form))
        for limit in s.limits:
            end = self.at.minimum(end, self.at.integer(limit))
        self._loop(s, start, end, may_be_empty=bool(s.limits or s.starts))

    def chunk(self, s: For) -> None:
        """This thread's share of a parallel loop: iterations id*n/threads up to (id+1)*n/threads."""
        self._twice_if_streamed(s, self._chunk)

    def _chunk(self, s: For) -> None:
        f = self.f
        thread = f.emit(f"zext i32 {f.emit('call i32 @omp_get_thread_num()')} to i64")
        threads = f.emit(f"zext i32 {f.emit('call i32 @omp_get_num_threads()')} to i64")
        ends = []
        for n in (thread, f.emit(f"add i64 {thread}, 1")):
            product = f.emit(f"mul i64 {n}, {s.extent}")
            ends.append(f.emit(f"udiv i64 {product}, {threads}"))
        self._loop(s, ends[0], ends[1], may_be_empty=True)

    def _loop(self, s: For, start: str, end: str, may_be_empty: bool) -> None:
        f = self.f
        head, done = f.fresh_label("loop"), f.fresh_label("done")
        if may_be_empty:
            some = f.emit(f"icmp slt i64 {start}, {end}")
            f.line(f"br i1 {some}, label %{head}, label %{done}")
        else:
            f.branch(head)
        before, i, following = f.label, f.name(), f.name()
        f.start(head)
        phi: Text = []
        f.out.append(phi)
        with self.at.variable(s.var, i, (0, s.extent - 1)):
            self.emit(s.body)
        phi.append(f"  {i} = phi i64 [ {start}, %{before} ], [ {following}, %{f.label} ]")
        f.line(f"{following} = add nuw nsw i64 {i}, 1")
        more = f.emit(f"icmp slt i64 {following}, {end}")
        f.line(f"br i1 {more}, label %{head}, label %{done}")
        f.start(done)

    def _twice_if_streamed(self, s: For, emit: Callable[[For], None]) -> None:
        """Code with streamed stores comes twice: they need aligned results, which are known at run time."""
        streamed = {x.buffer for x in walk_statements((s,)) if isinstance(x, Store) and x.stream}
        if not streamed or self.streaming is not None:
            return emit(s)
        f, joined = self.f, ""
        for name in sorted(streamed):
            address = f.emit(f"ptrtoint ptr {self.at.slots[name].pointer} to i64")
            joined = f.emit(f"or i64 {joined}, {address}") if joined else address
        low = f.emit(f"and i64 {joined}, 63")
        aligned = f.emit(f"icmp eq i64 {low}, 0")
        then, orelse, done = (f.fresh_label(x) for x in ("aligned", "unaligned", "endif"))
        f.line(f"br i1 {aligned}, label %{then}, label %{orelse}")
        for label in (then, orelse):
            f.start(label)
            self.streaming = label == then
            with self.at.block():
                emit(s)
            if self.streaming:
                f.line("fence seq_cst")  # streamed stores are not ordered with others by themselves
            f.branch(done)
        self.streaming = None
        f.start(done)
        return None

    # -- what stands in loops -----------------------------------------------------------------------------

    def _let(self, s: Let) -> None:
        form = self.at.resolved(s.value)
        if not form.terms:
            self.at.vars[s.var] = _LET[s.op](form.const, s.operand)
            return self.emit(s.body)
        value, (lo, hi) = self.at.integer(form), self.at.reach(form)
        if s.op is LetOp.MIN:
            name, reach = self.at.minimum(value, str(s.operand)), (min(lo, s.operand), min(hi, s.operand))
        elif s.op is LetOp.DIV:
            name, reach = self.f.emit(f"udiv i64 {value}, {s.operand}"), (lo // s.operand, hi // s.operand)
        else:
            name, reach = self.f.emit(f"urem i64 {value}, {s.operand}"), (0, s.operand - 1)
        with self.at.variable(s.var, name, reach):
            self.emit(s.body)
        return None

    def _if(self, s: If) -> None:
        conds = Conditions(self.at, s.conds)
        if conds.never:
            return self.emit(s.orelse)
        if conds.always:
            return self.emit(s.then)
        if conds.lane and s.orelse:
            raise AssertionError("a condition on lanes has no other branch")
        if not conds.plain:
            return self._masked(conds, s.then)
        f = self.f
        then, orelse, done = f.fresh_label("then"), f.fresh_label("else"), f.fresh_label("endif")
        f.line(f"br i1 {conds.truth()}, label %{then}, label %{orelse if s.orelse else done}")
        f.start(then)
        with self.at.block():
            self._masked(conds, s.then) if conds.lane else self.emit(s.then)
        f.branch(done)
        if s.orelse:
            f.start(orelse)
            with self.at.block():
                self.emit(s.orelse)
            f.branch(done)
        f.start(done)
        return None

    def _masked(self, conds: Conditions, then: tuple[Stmt, ...]) -> None:
        with self.at.lanes(self.at.lane, conds.within(self.at.mask, conds.mask()), self.at.guarding):
            self.emit(then)

    def _alloc(self, s: Alloc) -> None:
        outer = self.at.slots.get(s.buffer.name)
        self.at.slots[s.buffer.name] = self.memory.local(s.buffer)
        self.emit(s.body)
        if outer is None:
            del self.at.slots[s.buffer.name]
        else:
            self.at.slots[s.buffer.name] = outer

    def _store(self, s: Store) -> None:
        self._count()
        slot = self.at.slots[s.buffer]
        value = self.values.expression(s.value, slot.buffer.dtype)
        self.memory.write(slot, s.index, value, stream=s.stream and self.streaming is True)

    def _update(self, s: Update) -> None:
        self._count()
        slot = self.at.slots[s.buffer]
        dtype, lane = slot.buffer.dtype, self.at.lane
        if lane is None or self.memory.lane_stride(slot, s.index):
            old = self.memory.read(slot, s.index)
            self.memory.write(slot, s.index, self.values.accumulate(s.reducer, old, s.value, dtype))
            return
        joined = self.values.across_lanes(s.reducer, s.value, dtype)
        with self.at.lanes(None, None):
            self.at.vars[lane.var] = 0
            old = self.memory.read(slot, s.index)
            self.memory.write(slot, s.index, self.values.join(s.reducer, old, joined, dtype))
            del self.at.vars[lane.var]
