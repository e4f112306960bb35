"""Addresses, loads and stores, of one element or of a vector of lanes.

Address arithmetic is emitted once, at the loop whose variable it depends on; loads of operands that nothing
writes are emitted once a block. Under a mask, memory of lanes that are off is not touched, except in local
buffers, where whole vectors are what dissolves into registers: they get room for lanes past their end.
"""

from dataclasses import dataclass

from tunesmith.codegen.context import Context, Level, Slot, alignment
from tunesmith.codegen.text import Value, scalar_type, vector_type
from tunesmith.codegen.vecmath import Math
from tunesmith.ir.affine import Affine, constant
from tunesmith.ir.loopnest import Buffer, Role

__all__ = ["Memory"]

_OWN_SLOT_BYTES = 8192  # local buffers up to this size get a slot a use, so that SROA can dissolve each
_ALL_OWN_BYTES = 1 << 17  # … until these are so large together
_SPARE = 128  # elements past the end of a local buffer that lanes may reach


@dataclass
class _Room:
    """Stack space: how many elements it holds, and the line of the entry block that makes it."""

    line: int
    elements: int = 0


class Memory:
    def __init__(self, context: Context) -> None:
        self.at = context
        self.f = context.f
        self.rooms: dict[str, _Room] = {}
        self.own_bytes = 0
        self.shared: dict[str, str] = {}
        self.flat: dict[object, tuple[Affine, tuple[Affine, ...]]] = {}  # keeps each index, and so its id

    def local(self, b: Buffer) -> Slot:
        """Stack space for a local buffer; large ones of one name share theirs."""
        is_own = b.size_bytes <= min(_OWN_SLOT_BYTES, _ALL_OWN_BYTES - self.own_bytes)
        pointer = None if is_own else self.shared.get(b.name)
        if pointer is None:
            pointer = f"%a{next(self.f.numbers)}"
            self.rooms[pointer] = _Room(len(self.at.entry))
            self.at.entry.append("")
        if is_own:
            self.own_bytes += b.size_bytes
        else:
            self.shared[b.name] = pointer
        slot = Slot(b, pointer, alignment(b), True)
        self._make_room(slot, b.elements)
        return slot

    def _make_room(self, slot: Slot, elements: int) -> None:
        room, kind = self.rooms[slot.pointer], scalar_type(slot.buffer.dtype)
        if elements > room.elements:
            room.elements = elements
            self.at.entry[room.line] = f"  {slot.pointer} = alloca [{elements} x {kind}], align {slot.align}"

    def stride(self, slot: Slot, index: tuple[Affine, ...], variable: str) -> int:
        """Elements between neighbours along a variable."""
        return self._flat(slot, index).coefficient(variable)

    def lane_stride(self, slot: Slot, index: tuple[Affine, ...]) -> int:
        """Elements between neighbouring lanes; 0 outside of a vectorized loop."""
        return self._flat(slot, index).coefficient(self.at.lane.var) if self.at.lane else 0

    # -- loads --------------------------------------------------------------------------------------------

    def read(self, slot: Slot, index: tuple[Affine, ...]) -> Value:
        flat, lane = self._flat(slot, index), self.at.lane
        lanes = lane.lanes if lane else 0
        stride = flat.coefficient(lane.var) if lane else 0
        mask = self.at.mask if stride or self._may_be_elsewhere(slot, index, flat) else None
        key = (slot.pointer, flat, lanes if stride else 0, mask)
        table = self.at.loaded[-1].setdefault(slot.pointer, {})
        known = table.get(key) if slot.written else self.f.recall(key)
        if known is not None:
            return known
        value = self._load(slot, flat, lanes, stride, mask)
        if slot.written:
            table[key] = value
            return value
        return self.f.remember(key, value)

    def _may_be_elsewhere(self, slot: Slot, index: tuple[Affine, ...], flat: Affine) -> bool:
        """Whether an element that all lanes share may lie outside of its buffer when none of them is on."""
        if self.at.mask is None or self.at.lane is None:
            return False
        if not self.at.guarding and not any(i.coefficient(self.at.lane.var) for i in index):
            return False  # the tail of the vectorized loop says nothing about other loops
        lo, hi = self.at.reach(flat)
        return lo < 0 or hi >= slot.buffer.elements

    def _load(self, slot: Slot, flat: Affine, lanes: int, stride: int, mask: str | None) -> Value:
        if not stride:
            return self._load_scalar(slot, flat, mask)
        if mask is not None and self._has_room(slot, flat):
            mask = None
        if stride == 1:
            value = self._load_vector(slot, flat, lanes, mask)
        else:
            value = self._gather(slot, flat, stride, lanes, mask)
        if mask is None and self.at.mask is not None:  # lanes that are off may hold what was never written
            value = Value(self.f.emit(f"freeze {vector_type(slot.buffer.dtype, lanes)} {value.name}"), lanes)
        return value

    def _load_scalar(self, slot: Slot, flat: Affine, mask: str | None) -> Value:
        """Under a mask, some other element of the buffer when no lane is on."""
        element, align = scalar_type(slot.buffer.dtype), slot.buffer.dtype.size_bytes
        pointer = self._pointer(slot, flat)
        if mask is not None and self.at.lane is not None:
            lanes = self.at.lane.lanes
            some = self.f.emit(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")
            pointer = self.f.emit(f"select i1 {some}, ptr {pointer}, ptr {slot.pointer}")
        return Value(self.f.emit(f"load {element}, ptr {pointer}, align {align}"))

    def _load_vector(self, slot: Slot, flat: Affine, lanes: int, mask: str | None) -> Value:
        dtype = slot.buffer.dtype
        kind, pointer = vector_type(dtype, lanes), self._pointer(slot, flat)
        if mask is None:
            return Value(self.f.emit(f"load {kind}, ptr {pointer}, align {dtype.size_bytes}"), lanes)
        zero = self.f.float_constant(0.0, dtype, lanes).name
        call = (
            f"call {kind} @llvm.masked.load.v{lanes}f{dtype.bits}.p0(ptr {pointer}, i32 {dtype.size_bytes}, "
            f"<{lanes} x i1> {mask}, {kind} {zero})"
        )
        return Value(self.f.emit(call), lanes)

    def _gather(self, slot: Slot, flat: Affine, stride: int, lanes: int, mask: str | None) -> Value:
        """Scalar loads joined into a vector; under a mask, lanes that are off load nothing."""
        dtype = slot.buffer.dtype
        kind, element, align = vector_type(dtype, lanes), scalar_type(dtype), dtype.size_bytes
        if mask is not None:
            pointers = self._lane_pointers(slot, flat, stride, lanes)
            zero = self.f.float_constant(0.0, dtype, lanes).name
            call = (
                f"call {kind} @llvm.masked.gather.v{lanes}f{dtype.bits}.v{lanes}p0("
                f"<{lanes} x ptr> {pointers}, i32 {align}, <{lanes} x i1> {mask}, {kind} {zero})"
            )
            return Value(self.f.emit(call), lanes)
        joined = "poison"
        for i in range(lanes):
            pointer = self._pointer(slot, flat + i * stride)
            one = self.f.emit(f"load {element}, ptr {pointer}, align {align}")
            joined = self.f.emit(f"insertelement {kind} {joined}, {element} {one}, i64 {i}")
        return Value(joined, lanes)

    def _has_room(self, slot: Slot, flat: Affine) -> bool:
        """Whether all lanes, on or off, may touch a local buffer, which gets the room if it can be given."""
        if slot.buffer.role is not Role.LOCAL:
            return False
        lo, hi = self.at.reach(flat)
        if lo < 0 or hi >= slot.buffer.elements + _SPARE:
            return False
        self._make_room(slot, hi + 1)
        return True

    # -- stores -------------------------------------------------------------------------------------------

    def write(self, slot: Slot, index: tuple[Affine, ...], value: Value, stream: bool = False) -> None:
        """``stream``: past the caches, where the place is known to be aligned to whole vectors."""
        flat, lane = self._flat(slot, index), self.at.lane
        self._forget(slot)
        if lane is None or not flat.coefficient(lane.var):
            return self._store_scalar(slot, flat, value)
        dtype, mask = slot.buffer.dtype, self.at.mask
        value = self.f.splat(value, lane.lanes, dtype)
        if mask is not None and self._has_room(slot, flat):  # a local buffer keeps the lanes that are off
            old = self.read(slot, index)
            value = Value(Math(self.f, dtype, lane.lanes).select(mask, value.name, old.name), lane.lanes)
            self._forget(slot)
            mask = None
        stride = flat.coefficient(lane.var)
        if stride == 1:
            self._store_vector(slot, flat, value, mask, stream)
        elif mask is not None:
            self._scatter_masked(slot, flat, stride, value, mask)
        else:
            self._scatter(slot, flat, stride, value)
        return None

    def _forget(self, slot: Slot) -> None:
        """What was loaded from a buffer may no longer be there."""
        self.at.loaded[-1].pop(slot.pointer, None)

    def _store_scalar(self, slot: Slot, flat: Affine, value: Value) -> None:
        if value.lanes:
            raise AssertionError("a vector is stored to one element")
        dtype, pointer = slot.buffer.dtype, self._pointer(slot, flat)
        self.f.line(f"store {scalar_type(dtype)} {value.name}, ptr {pointer}, align {dtype.size_bytes}")

    def _store_vector(self, slot: Slot, flat: Affine, value: Value, mask: str | None, stream: bool) -> None:
        dtype, lanes, pointer = slot.buffer.dtype, value.lanes, self._pointer(slot, flat)
        kind, align = vector_type(dtype, lanes), dtype.size_bytes
        if mask is not None:
            self.f.line(
                f"call void @llvm.masked.store.v{lanes}f{dtype.bits}.p0({kind} {value.name}, "
                f"ptr {pointer}, i32 {align}, <{lanes} x i1> {mask})"
            )
            return
        hint = ""
        if stream and self._is_aligned(flat, lanes):
            align, hint = min(lanes * align, 64), ", !nontemporal !0"
        self.f.line(f"store {kind} {value.name}, ptr {pointer}, align {align}{hint}")

    def _is_aligned(self, flat: Affine, lanes: int) -> bool:
        assert self.at.lane is not None
        others = (c for n, c in flat.terms if n != self.at.lane.var)
        return lanes.bit_count() == 1 and all(c % lanes == 0 for c in (*others, flat.const))

    def _scatter_masked(self, slot: Slot, flat: Affine, stride: int, value: Value, mask: str) -> None:
        dtype, lanes = slot.buffer.dtype, value.lanes
        pointers = self._lane_pointers(slot, flat, stride, lanes)
        self.f.line(
            f"call void @llvm.masked.scatter.v{lanes}f{dtype.bits}.v{lanes}p0("
            f"{vector_type(dtype, lanes)} {value.name}, <{lanes} x ptr> {pointers}, "
            f"i32 {dtype.size_bytes}, <{lanes} x i1> {mask})"
        )

    def _scatter(self, slot: Slot, flat: Affine, stride: int, value: Value) -> None:
        dtype = slot.buffer.dtype
        kind, element, align = vector_type(dtype, value.lanes), scalar_type(dtype), dtype.size_bytes
        for i in range(value.lanes):
            one = self.f.emit(f"extractelement {kind} {value.name}, i64 {i}")
            pointer = self._pointer(slot, flat + i * stride)
            self.f.line(f"store {element} {one}, ptr {pointer}, align {align}")

    # -- addresses ----------------------------------------------------------------------------------------

    def _flat(self, slot: Slot, index: tuple[Affine, ...]) -> Affine:
        """Elements from the start of the buffer."""
        key = (slot.buffer.name, slot.buffer.shape, id(index))
        if (known := self.flat.get(key)) is None:
            total = constant(0)
            for i, stride in zip(index, slot.buffer.strides, strict=True):
                total = total + i * stride
            known = self.flat[key] = (total, index)
        return self.at.resolved(known[0])

    def _lane_pointers(self, slot: Slot, flat: Affine, stride: int, lanes: int) -> str:
        offsets = ", ".join(f"i64 {i * stride}" for i in range(lanes))
        element = scalar_type(slot.buffer.dtype)
        base = self._pointer(slot, flat)
        return self.f.emit(f"getelementptr inbounds {element}, ptr {base}, <{lanes} x i64> <{offsets}>")

    def _pointer(self, slot: Slot, flat: Affine) -> str:
        """Address of an element, the lane variable taken as 0; parts hoisted to the loops they depend on."""
        by_level: dict[int, list[tuple[str, int]]] = {}
        lane = self.at.lane.var if self.at.lane else None
        for name, c in flat.terms:
            if name != lane:
                by_level.setdefault(self.at.depth[name], []).append((name, c))
        pointer = slot.pointer
        element = scalar_type(slot.buffer.dtype)
        for depth in sorted(by_level):
            level, terms = self.at.levels[depth], by_level[depth]
            key = (pointer, tuple(terms))
            if key not in level.memo:
                offset = self._sum(level, terms)
                name = self.f.name()
                level.head.append(f"  {name} = getelementptr inbounds {element}, ptr {pointer}, i64 {offset}")
                level.memo[key] = name
            pointer = level.memo[key]
        if not flat.const:
            return pointer
        at = ("at", pointer, flat.const)
        if (known := self.f.recall(at)) is None:
            name = self.f.emit(f"getelementptr inbounds {element}, ptr {pointer}, i64 {flat.const}")
            known = self.f.remember(at, Value(name))
        return known.name

    def _sum(self, level: Level, terms: list[tuple[str, int]]) -> str:
        total = ""
        for name, c in terms:
            value = str(self.at.vars[name])
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
