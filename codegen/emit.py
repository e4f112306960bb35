"""Loop nest to LLVM IR text.

Unrolled loops are expanded here, the vectorized loop becomes vector values, register tiles are stack arrays
with constant indices that SROA turns into registers. Address arithmetic is emitted once, at the loop whose
variable it depends on; loads of operands that nothing writes are emitted once a block.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tunesmith.codegen.binary import PREPARE, REPEAT, RUN
from tunesmith.codegen.text import Function, Text, Value, flatten, scalar_type, vector_type
from tunesmith.codegen.vecmath import Math
from tunesmith.ir.affine import Affine, constant
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import (
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Reducer,
    Select,
    Unary,
    Within,
)
from tunesmith.ir.loopnest import (
    Alloc,
    Buffer,
    For,
    If,
    Let,
    LetOp,
    LoopKind,
    LoopNest,
    Role,
    Stmt,
    Store,
    Update,
    walk_statements,
)

__all__ = ["CodeTooLarge", "emit_module"]

_FCMP = {
    CompareOp.LT: "olt", CompareOp.LE: "ole", CompareOp.GT: "ogt",
    CompareOp.GE: "oge", CompareOp.EQ: "oeq", CompareOp.NE: "une",
}  # fmt: skip
_ARITHMETIC = {BinaryOp.ADD: "fadd", BinaryOp.SUB: "fsub", BinaryOp.MUL: "fmul", BinaryOp.DIV: "fdiv"}
_JOIN = {
    Reducer.SUM: BinaryOp.ADD, Reducer.PROD: BinaryOp.MUL,
    Reducer.MAX: BinaryOp.MAX, Reducer.MIN: BinaryOp.MIN,
}  # fmt: skip
_FAR = 1 << 30  # beyond the reach of any lane, so that lane conditions are exact in 32 bits
_OWN_SLOT_BYTES = 8192  # local buffers up to this size get a slot a use, so that SROA can dissolve each


class CodeTooLarge(Exception):
    """Unrolling would give more instructions than the limit."""


@dataclass
class _Level:
    """A loop body: where hoisted instructions go, and what has been hoisted there."""

    head: Text
    memo: dict[object, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a buffer is: its pointer, layout and whether this function writes it."""

    buffer: Buffer
    pointer: str
    align: int
    written: bool


@dataclass(frozen=True, slots=True)
class _Lane:
    var: str
    lanes: int


def emit_module(nest: LoopNest, threads: int, max_lines: int = 60_000) -> str:
    """LLVM IR text of a nest: ``ts_run``, ``ts_repeat`` and, with packed operands, ``ts_prepare``.

    Parallel loops ask OpenMP for ``threads`` threads. Raises CodeTooLarge.
    """
    module = _Module(nest, threads, max_lines)
    parts = [module.function("kernel", nest.body), _run("kernel", RUN, nest), _repeat()]
    if nest.prepare:
        parts += [module.function("pack", nest.prepare), _run("pack", PREPARE, nest)]
    return "\n\n".join([*module.outlined, *parts, _DECLARATIONS, _ATTRIBUTES])


_ATTRIBUTES = """attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }
!0 = !{i32 1}"""
_DECLARATIONS = """declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()"""


def _run(inner: str, symbol: str, nest: LoopNest) -> str:
    """The entry point: pointers out of the array, then the function that knows they do not overlap."""
    lines = [f"define void @{symbol}(ptr %buffers) #0 {{", "entry:"]
    args = ["ptr %buffers"]
    for i, b in enumerate(nest.buffers):
        lines.append(f"  %q{i} = getelementptr inbounds ptr, ptr %buffers, i64 {i}")
        lines.append(f"  %p{i} = load ptr, ptr %q{i}, align 8")
        args.append(f"ptr noalias align {_align(b)} %p{i}")
    return "\n".join([*lines, f"  call void @{inner}({', '.join(args)})", "  ret void", "}"])


def _repeat() -> str:
    return f"""define void @{REPEAT}(ptr %buffers, i64 %n) #0 {{
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %body, label %exit
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  call void @{RUN}(ptr %buffers)
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}}"""


def _align(b: Buffer) -> int:
    return 64 if b.role in (Role.PACKED, Role.TEMP, Role.LOCAL) else b.dtype.size_bytes


@dataclass
class _Module:
    nest: LoopNest
    threads: int
    max_lines: int
    outlined: list[str] = field(default_factory=list)

    def function(self, name: str, body: tuple[Stmt, ...]) -> str:
        written = {s.buffer for s in walk_statements(body) if isinstance(s, Store | Update)}
        slots = {
            b.name: _Slot(b, f"%p{i}", _align(b), b.name in written) for i, b in enumerate(self.nest.buffers)
        }
        emitter = _Emitter(self, slots)
        emitter.statements(body)
        params = [f"ptr noalias nocapture align {_align(b)} %p{i}" for i, b in enumerate(self.nest.buffers)]
        head = f"define internal void @{name}(ptr %buffers, {', '.join(params)}) noinline #0 {{"
        return "\n".join([head, "entry:", *flatten(emitter.entry), emitter.f.text(), "  ret void", "}"])

    def parallel(self, loop: For) -> str:
        """The body of a parallel loop as a function of its own; returns the function's name."""
        name = f"parallel{len(self.outlined)}"
        self.outlined.append("")  # keep the number
        at = len(self.outlined) - 1
        written = {s.buffer for s in walk_statements(loop.body) if isinstance(s, Store | Update)}
        slots = {
            b.name: _Slot(b, f"%p{i}", _align(b), b.name in written) for i, b in enumerate(self.nest.buffers)
        }
        emitter = _Emitter(self, slots)
        emitter.parallel_body(loop)
        params = ", ".join(
            f"ptr noalias nocapture align {_align(b)} %p{i}" for i, b in enumerate(self.nest.buffers)
        )
        head = f"define internal void @{name}.body(ptr %buffers, {params}) noinline #0 {{"
        body = "\n".join([head, "entry:", *flatten(emitter.entry), emitter.f.text(), "  ret void", "}"])
        entry = _run(f"{name}.body", name, self.nest).replace("define void", "define internal void", 1)
        self.outlined[at] = f"{body}\n\n{entry}"
        return name


class _Emitter:
    """Emits the statements of one function. Variables map to SSA names, or to ints while unrolled."""

    def __init__(self, module: _Module, slots: Mapping[str, _Slot]) -> None:
        self.module = module
        self.f = Function()
        self.entry: Text = []
        self.slots = dict(slots)
        self.vars: dict[str, str | int] = {}
        self.depth: dict[str, int] = {}
        self.levels = [_Level(self.entry)]
        self.lane: _Lane | None = None
        self.mask: str | None = None
        self.streaming = False
        self.shared: dict[str, tuple[str, int, int]] = {}
        self.emitted = 0

    # -- statements ---------------------------------------------------------------------------------------

    def statements(self, stmts: tuple[Stmt, ...]) -> None:
        for s in stmts:
            match s:
                case For() if len(self.levels) == 1 and s.kind is not LoopKind.PARALLEL:
                    self._outermost(s)
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
        self.emitted += 1
        if self.emitted > self.module.max_lines:
            raise CodeTooLarge(f"more than {self.module.max_lines} statements after unrolling")

    def _outermost(self, s: For) -> None:
        self._twice_if_streamed((s,), lambda: self._for(s))

    def _twice_if_streamed(self, stmts: tuple[Stmt, ...], emit: Callable[[], None]) -> None:
        """Code with streamed stores comes twice: they need aligned results, which are known at run time."""
        streamed = {x.buffer for x in walk_statements(stmts) if isinstance(x, Store) and x.stream}
        if not streamed or self.streaming:
            return emit()
        joined = ""
        for name in sorted(streamed):
            address = self.f.emit(f"ptrtoint ptr {self.slots[name].pointer} to i64")
            joined = self.f.emit(f"or i64 {joined}, {address}") if joined else address
        low = self.f.emit(f"and i64 {joined}, 63")
        aligned = self.f.emit(f"icmp eq i64 {low}, 0")
        then, orelse, done = (self.f.fresh_label(x) for x in ("aligned", "unaligned", "endif"))
        self.f.line(f"br i1 {aligned}, label %{then}, label %{orelse}")
        for label in (then, orelse):
            self.f.start(label)
            self.streaming = label == then
            with self._block():
                emit()
            if self.streaming:
                self.f.line("fence seq_cst")  # streamed stores are not ordered with others by themselves
            self.streaming = False
            self.f.branch(done)
        self.f.start(done)
        return None

    def _for(self, s: For) -> None:
        if s.extent <= 0:
            return
        match s.kind:
            case LoopKind.UNROLL:
                for i in range(s.extent):
                    self.vars[s.var] = i
                    self.statements(s.body)
            case LoopKind.VECTOR if s.extent > 1:
                self.lane = _Lane(s.var, s.extent)
                self.statements(s.body)
                self.lane = None
            case LoopKind.PARALLEL if self.module.threads > 1 and len(self.levels) == 1:
                name = self.module.parallel(s)
                self.f.line(
                    f"call void @GOMP_parallel(ptr @{name}, ptr %buffers, i32 {self.module.threads}, i32 0)"
                )
                self._forget_written()
            case LoopKind.VECTOR:
                self.vars[s.var] = 0
                self.statements(s.body)
            case _:
                self._serial(s)

    def _serial(self, s: For) -> None:
        extent = str(s.extent)
        for limit in s.limits:
            extent = self._min(extent, self.integer(limit))
        self._loop(s.var, "0", extent, s.body, may_be_empty=bool(s.limits))

    def _min(self, a: str, b: str) -> str:
        return self.f.emit(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def parallel_body(self, loop: For) -> None:
        """The whole of a thread's function; streamed as a whole or not at all."""
        self._twice_if_streamed((loop,), lambda: self.chunk(loop))

    def chunk(self, loop: For) -> None:
        """This thread's share of a parallel loop: iterations id*n/threads up to (id+1)*n/threads."""
        f = self.f
        thread = f.emit(f"zext i32 {f.emit('call i32 @omp_get_thread_num()')} to i64")
        threads = f.emit(f"zext i32 {f.emit('call i32 @omp_get_num_threads()')} to i64")
        ends = []
        for n in (thread, f.emit(f"add i64 {thread}, 1")):
            product = f.emit(f"mul i64 {n}, {loop.extent}")
            ends.append(f.emit(f"udiv i64 {product}, {threads}"))
        self._loop(loop.var, ends[0], ends[1], loop.body, may_be_empty=True)

    def _loop(self, var: str, start: str, end: str, body: tuple[Stmt, ...], may_be_empty: bool) -> None:
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
        hoisted: Text = []
        f.out.extend((phi, hoisted))
        self.levels.append(_Level(hoisted))
        self.vars[var], self.depth[var] = i, len(self.levels) - 1
        with self._block():
            self.statements(body)
        self.levels.pop()
        del self.vars[var]
        phi.append(f"  {i} = phi i64 [ {start}, %{before} ], [ {following}, %{f.label} ]")
        f.line(f"{following} = add nuw nsw i64 {i}, 1")
        more = f.emit(f"icmp slt i64 {following}, {end}")
        f.line(f"br i1 {more}, label %{head}, label %{done}")
        f.start(done)

    @contextmanager
    def _block(self) -> Iterator[None]:
        """Values computed inside are not known outside; what was read before may be overwritten inside."""
        self.f.memo.append({})
        yield
        self.f.memo.pop()
        self._forget_written()

    def _let(self, s: Let) -> None:
        value = self.integer(s.value)
        if s.op is LetOp.MIN:
            name = self._min(value, str(s.operand))
        else:
            name = self.f.emit(f"{'udiv' if s.op is LetOp.DIV else 'urem'} i64 {value}, {s.operand}")
        # A level of its own: what depends on the variable is hoisted to here, not above it.
        hoisted: Text = []
        self.f.out.append(hoisted)
        self.levels.append(_Level(hoisted))
        self.vars[s.var], self.depth[s.var] = name, len(self.levels) - 1
        with self._block():
            self.statements(s.body)
        self.levels.pop()
        del self.vars[s.var]

    def _if(self, s: If) -> None:
        conds = [c for c in s.conds if not self._is_true(c)]
        if any(self._is_false(c) for c in conds):
            return self.statements(s.orelse)
        lane = [c for c in conds if self.lane and c.coefficient(self.lane.var)]
        plain = [c for c in conds if c not in lane]
        if not conds:
            return self.statements(s.then)
        if lane and s.orelse:
            raise AssertionError("a condition on lanes has no other branch")
        if not plain:
            return self._masked(lane, s.then)
        f = self.f
        then, orelse, done = f.fresh_label("then"), f.fresh_label("else"), f.fresh_label("endif")
        f.line(f"br i1 {self._all(plain)}, label %{then}, label %{orelse if s.orelse else done}")
        f.start(then)
        with self._block():
            self._masked(lane, s.then) if lane else self.statements(s.then)
        f.branch(done)
        if s.orelse:
            f.start(orelse)
            with self._block():
                self.statements(s.orelse)
            f.branch(done)
        f.start(done)
        return None

    def _masked(self, conds: list[Affine], then: tuple[Stmt, ...]) -> None:
        outer = self.mask
        self.mask = self._and_mask(outer, self._lane_mask(conds))
        self.statements(then)
        self.mask = outer

    def _alloc(self, s: Alloc) -> None:
        b = s.buffer
        outer = self.slots.get(b.name)
        kind = f"[{b.elements} x {scalar_type(b.dtype)}]"
        if b.size_bytes <= _OWN_SLOT_BYTES:
            pointer = f"%a{next(self.f.numbers)}"
            self.entry.append(f"  {pointer} = alloca {kind}, align 64")
        else:
            pointer, size, at = self.shared.get(b.name, (f"%a{next(self.f.numbers)}", 0, len(self.entry)))
            if size == 0:
                self.entry.append("")
            if b.size_bytes > size:
                self.entry[at] = f"  {pointer} = alloca {kind}, align 64"
            self.shared[b.name] = (pointer, max(size, b.size_bytes), at)
        self.slots[b.name] = _Slot(b, pointer, 64, True)
        self.statements(s.body)
        if outer is None:
            del self.slots[b.name]
        else:
            self.slots[b.name] = outer

    def _store(self, s: Store) -> None:
        self._count()
        slot = self.slots[s.buffer]
        value = self.expression(s.value, slot.buffer.dtype)
        self._write(slot, s.index, value, stream=s.stream and self.streaming)

    def _update(self, s: Update) -> None:
        self._count()
        slot = self.slots[s.buffer]
        dtype = slot.buffer.dtype
        stride = self._lane_stride(slot, s.index)
        product = s.reducer is Reducer.SUM and isinstance(s.value, Binary) and s.value.op is BinaryOp.MUL
        if self.lane is None or stride != 0:
            old = self._read(slot, s.index)
            if product:
                assert isinstance(s.value, Binary)
                a, b = self.expression(s.value.a, dtype), self.expression(s.value.b, dtype)
                return self._write(slot, s.index, self._fma(a, b, old, dtype))
            value = self.expression(s.value, dtype)
            return self._write(slot, s.index, self._reduce(s.reducer, old, value, dtype))
        value = self.expression(s.value, dtype)
        lanes = self.lane.lanes
        value = self.f.splat(value, lanes, dtype)
        if self.mask is not None:
            neutral = self.f.float_constant(s.reducer.identity, dtype, lanes)
            value = Value(Math(self.f, dtype, lanes).select(self.mask, value.name, neutral.name), lanes)
        joined = self._horizontal(s.reducer, value, dtype)
        outer_lane, outer_mask = self.lane, self.mask
        self.lane, self.mask = None, None
        self.vars[outer_lane.var] = 0
        old = self._read(slot, s.index)
        self._write(slot, s.index, self._reduce(s.reducer, old, joined, dtype))
        del self.vars[outer_lane.var]
        self.lane, self.mask = outer_lane, outer_mask
        return None

    def _horizontal(self, reducer: Reducer, value: Value, dtype: DType) -> Value:
        kind, element = vector_type(dtype, value.lanes), scalar_type(dtype)
        suffix = f"v{value.lanes}f{dtype.bits}"
        if reducer in (Reducer.SUM, Reducer.PROD):
            op = "fadd" if reducer is Reducer.SUM else "fmul"
            start = self.f.float_constant(reducer.identity, dtype).name
            args = f"{element} {start}, {kind} {value.name}"
            return Value(self.f.emit(f"call reassoc {element} @llvm.vector.reduce.{op}.{suffix}({args})"))
        op = "fmaximum" if reducer is Reducer.MAX else "fminimum"
        return Value(self.f.emit(f"call {element} @llvm.vector.reduce.{op}.{suffix}({kind} {value.name})"))

    def _reduce(self, reducer: Reducer, old: Value, new: Value, dtype: DType) -> Value:
        return self._binary(_JOIN[reducer], old, new, dtype)

    # -- memory -------------------------------------------------------------------------------------------

    def _flat(self, slot: _Slot, index: tuple[Affine, ...]) -> Affine:
        total = constant(0)
        for i, stride in zip(index, slot.buffer.strides, strict=True):
            total = total + i * stride
        at = {n: constant(v) for n in total.names if isinstance(v := self.vars.get(n), int)}
        return total.substitute(at)

    def _lane_stride(self, slot: _Slot, index: tuple[Affine, ...]) -> int:
        return self._flat(slot, index).coefficient(self.lane.var) if self.lane else 0

    def _pointer(self, slot: _Slot, flat: Affine) -> str:
        """Address of an element, the lane variable taken as 0; parts hoisted to the loops they depend on."""
        by_level: dict[int, list[tuple[str, int]]] = {}
        for name, c in flat.terms:
            if self.lane is not None and name == self.lane.var:
                continue
            by_level.setdefault(self.depth[name], []).append((name, c))
        pointer = slot.pointer
        element = scalar_type(slot.buffer.dtype)
        for depth in sorted(by_level):
            level, terms = self.levels[depth], by_level[depth]
            key = (pointer, tuple(terms))
            if key not in level.memo:
                offset = self._sum(level, terms)
                name = self.f.name()
                level.head.append(f"  {name} = getelementptr inbounds {element}, ptr {pointer}, i64 {offset}")
                level.memo[key] = name
            pointer = level.memo[key]
        if not flat.const:
            return pointer
        key = ("at", pointer, flat.const)
        if (known := self.f.recall(key)) is None:
            name = self.f.emit(f"getelementptr inbounds {element}, ptr {pointer}, i64 {flat.const}")
            known = self.f.remember(key, Value(name))
        return known.name

    def _sum(self, level: _Level, terms: list[tuple[str, int]]) -> str:
        total = ""
        for name, c in terms:
            value = str(self.vars[name])
            if c != 1:
                product = self.f.name()
                level.head.append(f"  {product} = mul nsw i64 {value}, {c}")
                value = product
            if total:
                joined = self.f.name()
                level.head.append(f"  {joined} = add nsw i64 {total}, {value}")
                value = joined
            total = value
        return total

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

    def _read(self, slot: _Slot, index: tuple[Affine, ...]) -> Value:
        flat = self._flat(slot, index)
        lanes = self.lane.lanes if self.lane else 0
        stride = flat.coefficient(self.lane.var) if self.lane else 0
        kind = "mutable" if slot.written else "load"
        key = (kind, slot.pointer, flat, lanes if stride else 0, self.mask if stride else None)
        known = self.f.memo[-1].get(key) if slot.written else self.f.recall(key)
        if known is not None:
            return known
        if not stride:
            value = self._load_scalar(slot, flat)
        elif stride == 1:
            value = self._load_vector(slot, flat, lanes)
        else:
            value = self._gather(slot, flat, stride, lanes)
        return self.f.remember(key, value)

    def _load_scalar(self, slot: _Slot, flat: Affine) -> Value:
        element = scalar_type(slot.buffer.dtype)
        align = slot.buffer.dtype.size_bytes
        return Value(self.f.emit(f"load {element}, ptr {self._pointer(slot, flat)}, align {align}"))

    def _load_vector(self, slot: _Slot, flat: Affine, lanes: int) -> Value:
        dtype = slot.buffer.dtype
        kind, pointer = vector_type(dtype, lanes), self._pointer(slot, flat)
        if self.mask is None or slot.buffer.role is Role.LOCAL:
            return Value(self.f.emit(f"load {kind}, ptr {pointer}, align {dtype.size_bytes}"), lanes)
        zero = self.f.float_constant(0.0, dtype, lanes).name
        call = (
            f"call {kind} @llvm.masked.load.v{lanes}f{dtype.bits}.p0(ptr {pointer}, i32 {dtype.size_bytes}, "
            f"<{lanes} x i1> {self.mask}, {kind} {zero})"
        )
        return Value(self.f.emit(call), lanes)

    def _gather(self, slot: _Slot, flat: Affine, stride: int, lanes: int) -> Value:
        """Scalar loads joined into a vector; under a mask, lanes that are off load nothing."""
        dtype = slot.buffer.dtype
        kind, element, align = vector_type(dtype, lanes), scalar_type(dtype), dtype.size_bytes
        if self.mask is not None and slot.buffer.role is not Role.LOCAL:
            pointers = self._lane_pointers(slot, flat, stride, lanes)
            zero = self.f.float_constant(0.0, dtype, lanes).name
            call = (
                f"call {kind} @llvm.masked.gather.v{lanes}f{dtype.bits}.v{lanes}p0("
                f"<{lanes} x ptr> {pointers}, i32 {align}, <{lanes} x i1> {self.mask}, {kind} {zero})"
            )
            return Value(self.f.emit(call), lanes)
        joined = "poison"
        for i in range(lanes):
            pointer = self._pointer(slot, flat + i * stride)
            one = self.f.emit(f"load {element}, ptr {pointer}, align {align}")
            joined = self.f.emit(f"insertelement {kind} {joined}, {element} {one}, i64 {i}")
        return Value(joined, lanes)

    def _lane_pointers(self, slot: _Slot, flat: Affine, stride: int, lanes: int) -> str:
        offsets = ", ".join(f"i64 {i * stride}" for i in range(lanes))
        element = scalar_type(slot.buffer.dtype)
        base = self._pointer(slot, flat)
        return self.f.emit(f"getelementptr inbounds {element}, ptr {base}, <{lanes} x i64> <{offsets}>")

    def _write(self, slot: _Slot, index: tuple[Affine, ...], value: Value, stream: bool = False) -> None:
        flat = self._flat(slot, index)
        dtype, align = slot.buffer.dtype, slot.buffer.dtype.size_bytes
        self._forget(slot)
        if self.lane is None or not flat.coefficient(self.lane.var):
            if value.lanes:
                raise AssertionError("a vector is stored to one element")
            self.f.line(
                f"store {scalar_type(dtype)} {value.name}, ptr {self._pointer(slot, flat)}, align {align}"
            )
            return
        lanes, stride = self.lane.lanes, flat.coefficient(self.lane.var)
        value = self.f.splat(value, lanes, dtype)
        if self.mask is not None and slot.buffer.role is Role.LOCAL:
            old = self._read(slot, index)
            value = Value(Math(self.f, dtype, lanes).select(self.mask, value.name, old.name), lanes)
            self._forget(slot)
        masked = self.mask is not None and slot.buffer.role is not Role.LOCAL
        kind = vector_type(dtype, lanes)
        if stride == 1 and not masked:
            aligned = stream and all(c % lanes == 0 for n, c in flat.terms if n != self.lane.var)
            hint = ""
            if aligned and flat.const % lanes == 0:
                align, hint = min(lanes * dtype.size_bytes, 64), ", !nontemporal !0"
            self.f.line(f"store {kind} {value.name}, ptr {self._pointer(slot, flat)}, align {align}{hint}")
        elif stride == 1:
            self.f.line(
                f"call void @llvm.masked.store.v{lanes}f{dtype.bits}.p0({kind} {value.name}, "
                f"ptr {self._pointer(slot, flat)}, i32 {align}, <{lanes} x i1> {self.mask})"
            )
        elif masked:
            pointers = self._lane_pointers(slot, flat, stride, lanes)
            self.f.line(
                f"call void @llvm.masked.scatter.v{lanes}f{dtype.bits}.v{lanes}p0({kind} {value.name}, "
                f"<{lanes} x ptr> {pointers}, i32 {align}, <{lanes} x i1> {self.mask})"
            )
        else:
            for i in range(lanes):
                one = self.f.emit(f"extractelement {kind} {value.name}, i64 {i}")
                pointer = self._pointer(slot, flat + i * stride)
                self.f.line(f"store {scalar_type(dtype)} {one}, ptr {pointer}, align {align}")

    def _forget(self, slot: _Slot) -> None:
        """Drop what was loaded from a buffer that is being written."""
        table = self.f.memo[-1]
        for key in [k for k in table if isinstance(k, tuple) and k[:2] == ("mutable", slot.pointer)]:
            del table[key]

    def _forget_written(self) -> None:
        table = self.f.memo[-1]
        for key in [k for k in table if isinstance(k, tuple) and k[0] == "mutable"]:
            del table[key]

    # -- expressions --------------------------------------------------------------------------------------

    def expression(self, e: Expr, dtype: DType) -> Value:
        match e:
            case Const(value):
                return self.f.float_constant(value, dtype)
            case Load(tensor, index):
                return self._read(self.slots[tensor], index)
            case Unary(op, a):
                x = self.expression(a, dtype)
                return Math(self.f, dtype, x.lanes).apply(op, x)
            case Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, a, b), c) | Binary(
                BinaryOp.ADD, c, Binary(BinaryOp.MUL, a, b)
            ):
                return self._fma(*(self.expression(x, dtype) for x in (a, b, c)), dtype)
            case Binary(op, a, b):
                return self._binary(op, self.expression(a, dtype), self.expression(b, dtype), dtype)
            case Select(Compare(op, x, y), a, b):
                return self._select(op, *(self.expression(v, dtype) for v in (x, y, a, b)), dtype)
            case Within(conds, a, b):
                return self._within(conds, a, b, dtype)
            case Compare():
                raise AssertionError("a comparison outside of a condition")

    def _even(self, dtype: DType, *values: Value) -> tuple[int, list[str]]:
        """All values at the width of the widest."""
        lanes = max(v.lanes for v in values)
        return lanes, [self.f.splat(v, lanes, dtype).name if lanes else v.name for v in values]

    def _fma(self, a: Value, b: Value, c: Value, dtype: DType) -> Value:
        lanes, names = self._even(dtype, a, b, c)
        return Value(Math(self.f, dtype, lanes).fma(*names), lanes)

    def _binary(self, op: BinaryOp, a: Value, b: Value, dtype: DType) -> Value:
        lanes, (x, y) = self._even(dtype, a, b)
        math = Math(self.f, dtype, lanes)
        if op in _ARITHMETIC:
            return Value(math.binary(_ARITHMETIC[op], x, y), lanes)
        for value, literal in ((x, b.literal), (y, a.literal)):
            if literal is not None and literal == literal:  # one instruction, and NaN still passes
                bound = math.raise_ if op is BinaryOp.MAX else math.lower
                return Value(bound(value, literal), lanes)
        return Value(math.call("maximum" if op is BinaryOp.MAX else "minimum", x, y), lanes)

    def _select(self, op: CompareOp, x: Value, y: Value, a: Value, b: Value, dtype: DType) -> Value:
        lanes, names = self._even(dtype, x, y, a, b)
        math = Math(self.f, dtype, lanes)
        cond = math.compare(_FCMP[op], names[0], names[1])
        return Value(math.select(cond, names[2], names[3]), lanes)

    def _within(self, conds: tuple[Affine, ...], a: Expr, b: Expr, dtype: DType) -> Value:
        left = [c for c in conds if not self._is_true(c)]
        if any(self._is_false(c) for c in left):
            return self.expression(b, dtype)
        if not left:
            return self.expression(a, dtype)
        lane = [c for c in left if self.lane and c.coefficient(self.lane.var)]
        plain = [c for c in left if c not in lane]
        if not plain:
            return self._within_lanes(lane, a, b, dtype)
        f = self.f
        inside, outside, done = f.fresh_label("in"), f.fresh_label("out"), f.fresh_label("join")
        f.line(f"br i1 {self._all(plain)}, label %{inside}, label %{outside}")
        lanes = self.lane.lanes if self.lane else 0
        arms: list[str] = []
        for label, arm in ((inside, a), (outside, b)):
            f.start(label)
            with self._block():
                in_lanes = lane if arm is a else []
                value = self._within_lanes(in_lanes, a, b, dtype) if in_lanes else self.expression(arm, dtype)
                name = f.splat(value, lanes, dtype).name if lanes else value.name
            arms.append(f"[ {name}, %{f.label} ]")
            f.branch(done)
        f.start(done)
        return Value(f.emit(f"phi {vector_type(dtype, lanes)} {', '.join(arms)}"), lanes)

    def _within_lanes(self, conds: list[Affine], a: Expr, b: Expr, dtype: DType) -> Value:
        assert self.lane is not None
        lanes, outer = self.lane.lanes, self.mask
        here = self._lane_mask(conds)
        other = self.f.splat(self.expression(b, dtype), lanes, dtype)
        self.mask = self._and_mask(outer, here)
        with self._block():
            value = self.f.splat(self.expression(a, dtype), lanes, dtype)
        self.mask = outer
        return Value(Math(self.f, dtype, lanes).select(here, value.name, other.name), lanes)

    # -- conditions ---------------------------------------------------------------------------------------

    def _resolved(self, cond: Affine) -> Affine:
        return cond.substitute({n: constant(v) for n in cond.names if isinstance(v := self.vars.get(n), int)})

    def _is_true(self, cond: Affine) -> bool:
        form = self._resolved(cond)
        return not form.terms and form.const >= 0

    def _is_false(self, cond: Affine) -> bool:
        form = self._resolved(cond)
        return not form.terms and form.const < 0

    def _all(self, conds: list[Affine]) -> str:
        result = ""
        for c in conds:
            one = self.f.emit(f"icmp sge i64 {self.integer(self._resolved(c))}, 0")
            result = self.f.emit(f"and i1 {result}, {one}") if result else one
        return result

    def _lane_mask(self, conds: list[Affine]) -> str:
        """Lanes where every form is >= 0, computed at the innermost loop that the forms depend on."""
        assert self.lane is not None
        result: str | None = None
        for c in conds:
            form = self._resolved(c)
            level = self.levels[max((self.depth[n] for n in form.names if n != self.lane.var), default=0)]
            key = ("mask", form, self.lane.lanes)
            if key not in level.memo:
                here, self.f.out = self.f.out, level.head
                level.memo[key] = self._compare_lanes(form)
                self.f.out = here
            result = self._and_mask(result, level.memo[key])
        assert result is not None
        return result

    def _compare_lanes(self, form: Affine) -> str:
        assert self.lane is not None
        lanes, kind = self.lane.lanes, f"<{self.lane.lanes} x i32>"
        base = self.f.emit(f"call i64 @llvm.smax.i64(i64 {self.integer(form)}, i64 {-_FAR})")
        base = self.f.emit(f"trunc i64 {self._min(base, str(_FAR))} to i32")
        one = self.f.emit(f"insertelement {kind} poison, i32 {base}, i64 0")
        bases = self.f.emit(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")
        step = form.coefficient(self.lane.var)
        steps = ", ".join(f"i32 {i * step}" for i in range(lanes))
        values = self.f.emit(f"add {kind} {bases}, <{steps}>")
        return self.f.emit(f"icmp sge {kind} {values}, zeroinitializer")

    def _and_mask(self, a: str | None, b: str) -> str:
        if a is None:
            return b
        assert self.lane is not None
        return self.f.emit(f"and <{self.lane.lanes} x i1> {a}, {b}")
