"""Several reductions across lanes at once, as the rows of a block have them.

Two vectors take one operation if a half of each is shuffled beside a half of the other. So the vectors of all
rows become one after a few rounds, and the last rounds are shared: a fifth of the instructions that the rows
would take one by one.
"""

from collections.abc import Sequence

from tunesmith.codegen.context import Context, Lane
from tunesmith.codegen.memory import Memory
from tunesmith.codegen.text import Value
from tunesmith.codegen.transpose import SEGMENT_BYTES
from tunesmith.codegen.values import Values
from tunesmith.ir.dtypes import DType
from tunesmith.ir.expr import Const, Reducer
from tunesmith.ir.loopnest import For, LoopKind, Store, Update

__all__ = ["is_joining", "join_rows"]


def is_joining(s: For, context: Context, memory: Memory) -> bool:
    """Whether an unrolled loop starts a result with the neutral element and joins lanes into it, row by row,
    the results side by side."""
    match s.body:
        case (
            Store(first, start, Const(value)),
            For(_, lanes, (), LoopKind.VECTOR, (Update(buffer, index, reducer, _),)),
        ):
            rows = s.extent
            if first != buffer or start != index or value != reducer.identity or context.lane is not None:
                return False
            if s.limits or s.starts or rows < 2 or rows & (rows - 1) or lanes & (lanes - 1) or rows > lanes:
                return False
            return memory.stride(context.slots[buffer], index, s.var) == 1
        case _:
            return False


def join_rows(s: For, context: Context, memory: Memory, values: Values) -> None:
    """Emit the reductions of all rows, and one store of their results."""
    _, inner = s.body
    assert isinstance(inner, For)
    (update,) = inner.body
    assert isinstance(update, Update)
    slot = context.slots[update.buffer]
    dtype = slot.buffer.dtype
    rows = []
    for i in range(s.extent):
        context.vars[s.var] = i
        with context.lanes(Lane(inner.var, inner.extent), None):
            rows.append(values.lanes_to_join(update.reducer, update.value, dtype))
    del context.vars[s.var]
    period = 1  # lane k of a vector belongs to its row k modulo this
    while len(rows) > 1:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [_beside(context, values, update.reducer, dtype, a, b, period) for a, b in pairs]
        period *= 2
    (whole,) = rows
    while whole.lanes > s.extent:
        half = whole.lanes // 2
        low, high = (_shuffled(context, dtype, whole, whole, range(n, n + half)) for n in (0, half))
        whole = values.join(update.reducer, low, high, dtype)
    with context.lanes(Lane(s.var, s.extent), None):
        memory.write(slot, update.index, whole)


def _beside(
    context: Context, values: Values, reducer: Reducer, dtype: DType, a: Value, b: Value, period: int
) -> Value:
    """Groups of ``period`` lanes of one beside those of the other, and one half joined with the other half.

    The halves are of segments of a register as long as these hold a group of each, where shuffles are cheap.
    """
    unit = SEGMENT_BYTES // dtype.size_bytes
    unit = unit if 2 * period <= unit <= a.lanes else a.lanes
    halves: tuple[list[int], list[int]] = [], []
    for start in range(0, a.lanes, unit):
        for n, half in enumerate(halves):
            for group in range(start + n * unit // 2, start + (n + 1) * unit // 2, period):
                of_a = list(range(group, group + period))
                half += [*of_a, *(a.lanes + i for i in of_a)]
    low, high = (_shuffled(context, dtype, a, b, half) for half in halves)
    return values.join(reducer, low, high, dtype)


def _shuffled(context: Context, dtype: DType, a: Value, b: Value, lanes: Sequence[int]) -> Value:
    return Value(context.f.shuffle(a.name, b.name, dtype, a.lanes, lanes), len(lanes))
