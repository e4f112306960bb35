"""Square tiles whose elements lie close along one variable where they are read and along the other where they
are written: whole vectors are loaded, transposed in registers and stored."""

from tunesmith.codegen.context import Context, Lane
from tunesmith.codegen.memory import Memory
from tunesmith.codegen.text import Value
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Load
from tunesmith.ir.loopnest import For, LoopKind, Store

__all__ = ["SEGMENT_BYTES", "copy_transposed", "is_transposing"]

SEGMENT_BYTES = 16
"""Shuffles within such parts of a register are cheap."""


def is_transposing(s: For, context: Context, memory: Memory) -> bool:
    """Whether an unrolled loop around a vectorized one copies such a tile."""
    match s.body:
        case (For(t, extent, (), LoopKind.VECTOR, (Store(buffer, index, Load(tensor, source)),)),):
            size = s.extent
            if size != extent or size not in (4, 8, 16) or context.lane is not None or tensor == buffer:
                return False
            strides = [
                memory.stride(context.slots[name], at, variable)
                for name, at, variable in (
                    (tensor, source, t), (tensor, source, s.var), (buffer, index, s.var), (buffer, index, t)
                )
            ]  # fmt: skip
            return strides[0] == 1 and strides[2] == 1 and 0 not in strides and 1 not in strides[1::2]
        case _:
            return False


def copy_transposed(s: For, context: Context, memory: Memory) -> None:
    """Emit the copy of one tile."""
    (inner,) = s.body
    assert isinstance(inner, For)
    (store,) = inner.body
    assert isinstance(store, Store) and isinstance(store.value, Load)
    source, target = context.slots[store.value.tensor], context.slots[store.buffer]
    rows = []
    for i in range(s.extent):
        context.vars[s.var] = i
        with context.lanes(Lane(inner.var, inner.extent), None):
            rows.append(memory.read(source, store.value.index))
    del context.vars[s.var]
    for j, column in enumerate(_transpose(rows, context, source.buffer.dtype)):
        context.vars[inner.var] = j
        with context.lanes(Lane(s.var, s.extent), None):
            memory.write(target, store.index, column)
    del context.vars[inner.var]


def _transpose(rows: list[Value], context: Context, dtype: DType) -> list[Value]:
    """Transpose a square of vectors: within segments first, then by swapping ever larger blocks
    (J. O. Eklundh, IEEE Trans. Computers C-21, 1972)."""
    size = len(rows)

    def shuffle(a: Value, b: Value, lanes: list[int]) -> Value:
        return Value(context.f.shuffle(a.name, b.name, dtype, size, lanes), size)

    block = 1
    if SEGMENT_BYTES // dtype.size_bytes == 4:
        rows, block = _interleave_quarters(rows, shuffle), 4
    while block < size:
        swapped = list(rows)
        for i in range(size):
            if i & block:
                continue
            a, b = rows[i], rows[i + block]
            low = [k if not k & block else size + k - block for k in range(size)]
            high = [k + block if not k & block else size + k for k in range(size)]
            swapped[i], swapped[i + block] = shuffle(a, b, low), shuffle(a, b, high)
        rows, block = swapped, 2 * block
    return rows


def _interleave_quarters(rows: list[Value], shuffle) -> list[Value]:  # type: ignore[no-untyped-def]
    """Transpose every 4×4 block within segments of four lanes, by two rounds of unpacking."""
    size = len(rows)
    segments = range(0, size, 4)
    low = [x for s in segments for x in (s, size + s, s + 1, size + s + 1)]
    high = [x for s in segments for x in (s + 2, size + s + 2, s + 3, size + s + 3)]
    low_pairs = [x for s in segments for x in (s, s + 1, size + s, size + s + 1)]
    high_pairs = [x for s in segments for x in (s + 2, s + 3, size + s + 2, size + s + 3)]
    out: list[Value] = []
    for i in range(0, size, 4):
        a, b, c, d = rows[i : i + 4]
        ab, cd = shuffle(a, b, low), shuffle(c, d, low)
        ab2, cd2 = shuffle(a, b, high), shuffle(c, d, high)
        out += [shuffle(ab, cd, low_pairs), shuffle(ab, cd, high_pairs)]
        out += [shuffle(ab2, cd2, low_pairs), shuffle(ab2, cd2, high_pairs)]
    return out
